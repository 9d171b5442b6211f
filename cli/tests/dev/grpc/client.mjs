// Calls the methods of greeter.proto, whose path is the first argument, at the address in the
// second argument, and prints the answers.
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const { Greeter } = grpc.loadPackageDefinition(loadSync(process.argv[2])).tenon.examples.v1;
const client = new Greeter(process.argv[3], grpc.credentials.createInsecure(), {
    "grpc.default_authority": "gateway.default.localhost",
});
const greet = (request) => new Promise((resolve) => {
    client.greet(request, (error, greeting) => resolve(error ? `${error.code} ${error.details}` : greeting.text));
});
const countDown = async (request) => {
    const texts = [];
    try {
        for await (const { text } of client.countDown(request)) texts.push(text);
    } catch (error) {
        texts.push(`${error.code} ${error.details}`);
    }
    return texts.join(", ");
};

console.log(await greet({ name: "Ann" }));
console.log(await greet({}));
console.log(await countDown({ name: "Ann", seconds: 2 }));
console.log(await countDown({ seconds: 1 }));
client.close();
