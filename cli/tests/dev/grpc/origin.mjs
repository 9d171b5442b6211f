// Serves examples/grpc/greeter.proto, whose path is the argument, on a free port, and prints the
// port.
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const { Greeter } = grpc.loadPackageDefinition(loadSync(process.argv[2])).tenon.examples.v1;
// The percent sign in these details tests that `grpc-message` is percent-encoded.
const nameless = { code: grpc.status.INVALID_ARGUMENT, details: "name: is missing, 100 % of it" };

const server = new grpc.Server();
server.addService(Greeter.service, {
    greet: ({ request }, respond) => {
        respond(request.name ? null : nameless, { text: `Hello, ${request.name}!` });
    },
    countDown: (call) => {
        for (let left = call.request.seconds; left > 0; left--) call.write({ text: `${left} …` });
        if (!call.request.name) return call.emit("error", nameless);
        call.write({ text: `Hello, ${call.request.name}!` });
        call.end();
    },
});
server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => {
    if (error) throw error;
    console.log(port);
});
