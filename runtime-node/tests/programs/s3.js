import { DeleteObjectsCommand, GetObjectCommand, HeadObjectCommand, ListObjectsV2Command, NoSuchKey, PutObjectCommand, S3Client, paginateListObjectsV2 } from "@aws-sdk/client-s3";

const Bucket = "bucket";

export default {
  async fetch(request, env) {
    const client = new S3Client({
      endpoint: env.ORIGIN, region: "us-east-1", forcePathStyle: true, credentials: { accessKeyId: "key", secretAccessKey: "secret" },
    });
    switch (new URL(request.url).pathname) {
      case "/put": {
        const { ETag, $metadata } = await client.send(
          new PutObjectCommand({ Bucket, Key: "a name.txt", Body: "some text", ContentType: "text/plain", Metadata: { by: "Ada" } }),
        );
        return Response.json({ ETag, status: $metadata.httpStatusCode });
      }
      case "/get": {
        const { Body, ContentType, Metadata, LastModified } = await client.send(new GetObjectCommand({ Bucket, Key: "a name.txt" }));
        return Response.json({ text: await Body.transformToString(), ContentType, Metadata, LastModified });
      }
      case "/relay":
        return new Response((await client.send(new GetObjectCommand({ Bucket, Key: "a name.txt" }))).Body);
      case "/list": {
        const { Contents, KeyCount } = await client.send(new ListObjectsV2Command({ Bucket, Prefix: "a" }));
        return Response.json({ KeyCount, all: Contents.map(({ Key, Size, LastModified }) => [Key, Size, LastModified.getTime()]) });
      }
      case "/pages": {
        const keys = [];
        for await (const page of paginateListObjectsV2({ client }, { Bucket })) keys.push(...page.Contents.map(({ Key }) => Key));
        return Response.json(keys);
      }
      case "/delete": {
        const { Deleted } = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key: "a&b" }, { Key: "c" }] } }));
        return Response.json(Deleted);
      }
      case "/head":
        return Response.json((await client.send(new HeadObjectCommand({ Bucket, Key: "a name.txt" }))).ContentLength);
      default:
        try {
          await client.send(new GetObjectCommand({ Bucket, Key: "none" }));
        } catch (error) {
          return Response.json({ is: error instanceof NoSuchKey, name: error.name, message: error.message });
        }
    }
  },
};
