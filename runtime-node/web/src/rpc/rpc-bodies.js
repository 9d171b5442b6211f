// Messages between Workers: objects of the Web interfaces. Streams stay where they are, and the
// peer reads or writes them chunk by chunk, each after the previous one has arrived. The bodies of
// requests and responses are bytes, or such streams.
//: late, after blob.js rpc-decode.js rpc-targets.js streams.js
(function (internal) {
  "use strict";

  const { PromiseWithResolvers, RangeError, TypeError } = internal.primordials;
  const bodies = internal.body;

  internal.later("rpcBodies", [], () => {
    const { TAGS, refuseValue } = internal.rpcEncoding();
    const { Service } = internal.rpcTargets();
    const { headers } = internal;

    // The forms of a body.
    const NONE = 0, BYTES = 1, STREAM = 2;

    // ---- Encoding

    function writeList(writer, list) {
      writer.integer(list.length);
      for (let i = 0; i < list.length; i++) writer.string(list[i]);
    }

    function writeBody(encoder, body) {
      const { writer } = encoder;
      if (body === null) return writer.byte(NONE);
      const source = bodies.take(body);
      if (source !== null && !bodies.isNative(source)) {
        writer.byte(BYTES);
        return writer.raw(typeof source === "string" ? internal.encodeUtf8(source) : source);
      }
      const stream = source === null ? body.stream : bodies.streamOf(bodies.of(source, null));
      writer.byte(STREAM);
      encoder.reference(TAGS.READABLE, readableService(stream));
    }

    // Returns the methods with which a peer reads a stream. The stream is locked from now on.
    function readableService(stream) {
      const streams = internal.streams();
      if (streams.isLocked(stream)) refuseValue("A ReadableStream that is locked cannot be sent");
      const reader = streams.acquire(stream);
      return new Service({
        __proto__: null,
        // Returns a list with the next chunk, or an empty list at the end.
        async pull() {
          const { done, value } = await streams.readChunk(reader);
          return done ? [] : [value];
        },
        cancel: (reason) => streams.cancel(stream, reason),
        dispose() {
          if (!streams.isClosed(stream)) ignore(streams.cancel(stream, new TypeError("The Worker that read the stream has released it")));
        },
      });
    }

    function writableService(stream) {
      const { acquireWritableStreamDefaultWriter, writableStreamAbort, writableStreamClose, writableStreamDefaultWriterWrite } =
        internal.streamsWritable();
      const record = internal.streamsWritableApi().streamOf(stream);
      if (record.writer !== null) refuseValue("A WritableStream that is locked cannot be sent");
      const writer = acquireWritableStreamDefaultWriter(record);
      let isOver = false;
      return new Service({
        __proto__: null,
        write(chunk) {
          const request = PromiseWithResolvers();
          const refused = writableStreamDefaultWriterWrite(writer, chunk, request);
          if (refused !== null) throw refused.reason;
          return request.promise;
        },
        close() {
          if (isOver) throw new TypeError("The WritableStream is closed, or about to be");
          isOver = true;
          return writableStreamClose(record);
        },
        abort(reason) {
          isOver = true;
          return writableStreamAbort(record, reason);
        },
        dispose() {
          if (!isOver) ignore(writableStreamAbort(record, new TypeError("The Worker that wrote the stream has released it")));
        },
      });
    }
    const ignore = async (promise) => {
      try {
        await promise;
      } catch {
        // The stream has ended, which is all that matters.
      }
    };

    // Writes an object of a Web interface. Returns false for any other value.
    function encode(encoder, value) {
      const { writer } = encoder;
      if (headers.isHeaders(value)) {
        writer.byte(TAGS.HEADERS);
        writeList(writer, headers.listOf(value));
      } else if (internal.isResponse(value)) {
        const { body, list, socket, status, statusText, type, url } = internal.responseRecord(value);
        if (socket !== null) refuseValue("A Response with a webSocket cannot be sent");
        if (type === "error") refuseValue("Response.error() cannot be sent");
        writer.byte(TAGS.RESPONSE);
        writer.integer(status);
        writer.string(statusText);
        writer.string(url);
        writeList(writer, list);
        writeBody(encoder, body);
      } else if (internal.isRequest(value)) {
        const { body, list, method, redirect, url } = internal.requestParts(value);
        writer.byte(TAGS.REQUEST);
        writer.string(method);
        writer.string(url);
        writer.string(redirect);
        writeList(writer, list);
        writeBody(encoder, body);
      } else if (internal.isReadableStream(value)) {
        encoder.reference(TAGS.READABLE, readableService(value));
      } else if (internal.isWritableStream(value)) {
        encoder.reference(TAGS.WRITABLE, writableService(value));
      } else {
        return encodeBlob(writer, value);
      }
      return true;
    }

    function encodeBlob(writer, value) {
      const { bytesOf, isBlob, isFile, modifiedOf, nameOf, typeOf } = internal.blobs();
      if (!isBlob(value)) return false;
      writer.byte(isFile(value) ? TAGS.FILE : TAGS.BLOB);
      writer.string(typeOf(value));
      writer.raw(bytesOf(value));
      if (isFile(value)) {
        writer.string(nameOf(value));
        writer.double(modifiedOf(value));
      }
      return true;
    }

    // ---- Decoding

    function readList(decoder) {
      const length = decoder.integer();
      const list = [];
      for (let i = 0; i < length; i++) list[i] = decoder.string();
      return list;
    }

    function readBody(decoder) {
      switch (decoder.byte()) {
        case BYTES: return bodies.of(decoder.raw(), null);
        case STREAM: {
          decoder.byte();
          const body = bodies.of(null, null);
          body.stream = readable(decoder.peer, decoder.integer());
          return body;
        }
        default: return null;
      }
    }

    // Returns a stream of the chunks that the peer's stream number `number` yields.
    function readable(peer, number) {
      const streams = internal.streams();
      const call = peer.methods(number);
      return streams.newReadable({
        __proto__: null,
        highWaterMark: 0,
        async pull(controller) {
          const chunk = await call("pull", []);
          if (chunk.length > 0) return streams.enqueue(controller, chunk[0]);
          peer.release(number);
          streams.close(controller);
        },
        async cancel(reason) {
          await end(call, "cancel", reason);
          peer.release(number);
        },
      });
    }

    function writable(peer, number) {
      const call = peer.methods(number);
      return internal.streams().newWritable({
        __proto__: null,
        async write(chunk) {
          await call("write", [chunk]);
        },
        async close() {
          await call("close", []);
          peer.release(number);
        },
        async abort(reason) {
          await end(call, "abort", reason);
          peer.release(number);
        },
      });
    }

    // Ends a stream of the peer early. A reason that cannot be sent is omitted.
    function end(call, method, reason) {
      try {
        return call(method, [reason]);
      } catch {
        return call(method, []);
      }
    }

    // Reads an object of a Web interface. Returns undefined for any other tag.
    function decode(decoder, tag) {
      const number = decoder.memory.length;
      decoder.keep(null);
      const object = decodeObject(decoder, tag);
      decoder.memory[number] = object;
      return object;
    }

    function decodeObject(decoder, tag) {
      switch (tag) {
        case TAGS.HEADERS: return headers.wrap(readList(decoder), false);
        case TAGS.RESPONSE: {
          const status = decoder.integer();
          if (status < 200 || status > 599) throw new RangeError("A message from a Worker has an invalid status");
          const statusText = decoder.string();
          const url = decoder.string();
          const list = readList(decoder);
          const body = readBody(decoder);
          return internal.newResponse({ __proto__: null, status, statusText, url, redirected: false, list, body, socket: null });
        }
        case TAGS.REQUEST: {
          const method = decoder.string();
          const url = decoder.string();
          const redirect = decoder.string();
          const list = readList(decoder);
          return internal.requestOf({ __proto__: null, method, url, redirect, list, body: readBody(decoder) });
        }
        case TAGS.READABLE: return readable(decoder.peer, decoder.integer());
        case TAGS.WRITABLE: return writable(decoder.peer, decoder.integer());
        case TAGS.BLOB: {
          const type = decoder.string();
          return internal.blobs().newBlob(decoder.raw(), type);
        }
        case TAGS.FILE: {
          const type = decoder.string();
          const bytes = decoder.raw();
          const name = decoder.string();
          return internal.blobs().newFile(bytes, name, type, decoder.double());
        }
        default: return undefined;
      }
    }

    return { __proto__: null, decode, encode };
  });
})
