//! Sets the cfg `patched_v8` if the linked V8 is Tenon's own build (`runtime-node/v8`).

use std::env;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(patched_v8)");
    println!("cargo::rerun-if-env-changed=RUSTY_V8_MIRROR");
    println!("cargo::rerun-if-env-changed=RUSTY_V8_ARCHIVE");
    let target = env::var("TARGET").unwrap_or_default();
    let mirror = env::var("RUSTY_V8_MIRROR").unwrap_or_default();
    let is_ours = mirror.contains("-tenon.") && env::var_os("RUSTY_V8_ARCHIVE").is_none();
    // On other targets, the crate `v8` finds no library in Tenon's directory, and downloads its
    // own.
    if is_ours && target == "x86_64-unknown-linux-gnu" {
        println!("cargo::rustc-cfg=patched_v8");
    }
}
