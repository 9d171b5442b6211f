//! Generates the gRPC code from `proto/`, with protox so that no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["proto/tenon/catalog/v1/catalog.proto", "proto/tenon/node/v1/node.proto", "proto/tenon/runtime/v1/runtime.proto"];
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure()
        // Bodies stay the buffers that came from the socket.
        .bytes(".tenon.runtime.v1")
        .bytes(".tenon.catalog.v1.ModuleChunk")
        .bytes(".tenon.node.v1")
        .compile_fds(descriptors)?;
    Ok(())
}
