//! Generates the gRPC code from `proto/` with protox, so that no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let importing_catalog = [
        "proto/tenon/node/v1/node.proto",
        "proto/tenon/node/v1/profiler.proto",
        "proto/tenon/router/v1/router.proto",
    ];
    // This must run first: it also writes an empty file for the catalog package, whose messages
    // come from the crate's own module. The second run overwrites that file.
    tonic_prost_build::configure()
        .bytes(".tenon.node.v1")
        .extern_path(".tenon.catalog.v1", "crate::catalog")
        .compile_fds(protox::compile(importing_catalog, ["proto"])?)?;
    let catalog_and_runtime =
        ["proto/tenon/catalog/v1/catalog.proto", "proto/tenon/runtime/v1/runtime.proto"];
    tonic_prost_build::configure()
        // Bodies keep the buffers that were read from the socket.
        .bytes(".tenon.runtime.v1")
        .bytes(".tenon.catalog.v1.GetAssetsResponse")
        .bytes(".tenon.catalog.v1.ModuleChunk")
        .compile_fds(protox::compile(catalog_and_runtime, ["proto"])?)?;
    Ok(())
}
