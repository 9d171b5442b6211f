//! Tests that the real esbuild bundles the code of projects, such as wrangler projects.
#![allow(clippy::unwrap_used)] // Clippy recognizes only functions that are marked as tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::harness::{Dev, TENON, await_condition};

/// The bundler, installed from `bundler/package-lock.json`.
static ESBUILD: LazyLock<PathBuf> = LazyLock::new(|| {
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dev/bundler");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bundler");
    fs::create_dir_all(&directory).unwrap();
    for file in ["package.json", "package-lock.json", ".npmrc"] {
        fs::copy(pinned.join(file), directory.join(file)).unwrap();
    }
    let installed = Command::new("npm")
        .args(["ci", "--loglevel", "error", "--prefer-offline"])
        .current_dir(&directory)
        .status()
        .unwrap();
    assert!(installed.success());
    directory.join("node_modules/.bin/esbuild")
});

const CONFIGURATION: &str = r#"{
    // A comment, which wrangler allows.
    "name": "shop",
    "main": "src/index.ts",
    "compatibility_flags": ["nodejs_compat"],
    "vars": { "GREETING": "Hello" },
}"#;

const MAIN: &str = r#"
import { greet } from "greeter";
import page from "./page.html";
import hash from "legacy";

interface Env { GREETING: string; API_KEY: string }

export default {
    fetch(request: Request, env: Env): Response {
        const path: string = new URL(request.url).pathname;
        if (path === "/page") return new Response(page);
        if (path === "/hash") return new Response(hash(env.API_KEY));
        if (path === "/fail") throw new Error("no such page");
        return new Response(greet(env.GREETING));
    },
};
"#;

/// Creates a wrangler project with two installed packages, one of which is in CommonJS.
fn project() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("wrangler.jsonc", CONFIGURATION);
    write(".dev.vars", "API_KEY=abc\n");
    write("src/index.ts", MAIN);
    write("src/page.html", "<p>A page</p>");
    write("node_modules/greeter/package.json", r#"{"name": "greeter", "module": "index.mjs"}"#);
    write("node_modules/greeter/index.mjs", "export const greet = (text) => `${text}, world`;");
    write("node_modules/legacy/package.json", r#"{"name": "legacy", "main": "index.js"}"#);
    write(
        "node_modules/legacy/index.js",
        "const { createHash } = require('crypto');\n\
         module.exports = (text) => createHash('sha256').update(text).digest('hex');",
    );
    fs::create_dir_all(directory.path().join("node_modules/.bin")).unwrap();
    symlink(&*ESBUILD, directory.path().join("node_modules/.bin/esbuild")).unwrap();
    directory
}

#[test]
fn a_wrangler_project_is_served_with_its_packages_and_secrets() {
    let project = project();
    let dev = Dev::start(project.path());
    dev.await_line("default/shop");
    assert_eq!(dev.get("localhost", "/"), (200, "Hello, world".into()));
    assert_eq!(dev.get("localhost", "/page"), (200, "<p>A page</p>".into()));
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(dev.get("localhost", "/hash"), (200, hash.into()));
    assert_eq!(dev.get("localhost", "/fail").0, 500);
    dev.await_line("src/index.ts:13:");
    // The lines of the source come from the source map.
    dev.await_line("13 |         if (path === \"/fail\") throw new Error(\"no such page\");");
}

#[test]
fn the_configuration_that_a_build_has_generated_is_served() {
    let project = project();
    let write = |path: &str, text: &str| {
        let path = project.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(".wrangler/deploy/config.json", r#"{"configPath": "../../dist/server/wrangler.json"}"#);
    let generated = r#"{
        "name": "built",
        "main": "index.js",
        "no_bundle": true,
        "triggers": {},
        "queues": { "producers": [], "consumers": [] },
        "vars": { "GREETING": "Good day" },
        "assets": {
            "directory": "../client",
            "not_found_handling": "single-page-application",
            "run_worker_first": ["/api/*"]
        }
    }"#;
    write("dist/server/wrangler.json", generated);
    write("dist/server/index.js", "export { default } from './assets/handler.js';");
    let handler = "export default { fetch: (_, env) => new Response(env.GREETING + env.API_KEY) };";
    write("dist/server/assets/handler.js", handler);
    write("dist/client/index.html", "<p>The application</p>");
    for has_author_file in [true, false] {
        if !has_author_file {
            fs::remove_file(project.path().join("wrangler.jsonc")).unwrap();
        }
        let dev = Dev::start(project.path());
        dev.await_line("default/built");
        assert_eq!(dev.get("localhost", "/api/greeting"), (200, "Good dayabc".into()));
        assert_eq!(dev.get("localhost", "/any/page"), (200, "<p>The application</p>".into()));
    }
}

#[test]
fn a_project_is_bundled_again_after_each_save_and_keeps_its_code_while_it_is_broken() {
    let project = project();
    let main = project.path().join("src/index.ts");
    let dev = Dev::start(project.path());
    assert_eq!(dev.get("localhost", "/").1, "Hello, world");
    fs::write(&main, "export default { fetch( }").unwrap();
    dev.await_line("src/index.ts:1:24");
    assert_eq!(dev.get("localhost", "/").1, "Hello, world");
    fs::write(&main, MAIN.replace("greet(env.GREETING)", "'Goodbye'")).unwrap();
    await_condition("the new code serves", || dev.get("localhost", "/").1 == "Goodbye");
}

#[test]
fn an_imported_manifest_builds_the_same_code() {
    let project = project();
    let run = |arguments: &[&str]| {
        let output = Command::new(TENON).args(arguments).current_dir(project.path()).output();
        let output = output.unwrap();
        let text =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(output.status.success(), "{text}");
        text
    };
    assert!(run(&["import"]).contains("next: tenon dev worker.yaml"));
    let manifest = fs::read_to_string(project.path().join("worker.yaml")).unwrap();
    assert!(manifest.contains("tenon.dev/main: src/index.ts"), "{manifest}");
    let checked = run(&["check", "worker.yaml", "--env-file", ".dev.vars"]);
    assert!(checked.contains("1 Worker valid"), "{checked}");
}

#[test]
fn a_build_command_runs_once_until_a_source_changes() {
    let project = project();
    let configuration = r#"{
        "name": "shop",
        "main": "dist/index.js",
        "build": { "command": "mkdir -p dist && cp src/plain.js dist/index.js && echo built >> log" },
    }"#;
    let write = |path: &str, text: &str| fs::write(project.path().join(path), text).unwrap();
    let code = |text: &str| format!("export default {{ fetch: () => new Response('{text}') }};");
    write("wrangler.jsonc", configuration);
    write(".gitignore", "dist\n");
    write("src/plain.js", &code("one"));
    let dev = Dev::start(project.path());
    assert_eq!(dev.get("localhost", "/").1, "one");
    write("src/plain.js", &code("two"));
    await_condition("the new code serves", || dev.get("localhost", "/").1 == "two");
    let log = fs::read_to_string(project.path().join("log")).unwrap();
    assert_eq!(log, "built\nbuilt\n");
}

#[test]
fn the_templates_with_packages_respond() {
    let folder = tempfile::tempdir().unwrap();
    for (template, path, expected) in
        [("hono", "/users/7", r#"{"id":"7"}"#), ("react", "/app.js", "says that it is")]
    {
        let directory = folder.path().join(template);
        let (init, arguments) = (["init", "--template", template], [directory.as_os_str()]);
        let created = Command::new(TENON).args(init).args(arguments).output().unwrap();
        assert!(created.status.success(), "{created:?}");
        let install = ["install", "--no-audit", "--no-fund", "--loglevel", "error"];
        let installed = Command::new("npm").args(install).current_dir(&directory).status();
        assert!(installed.unwrap().success());
        let dev = Dev::start(&directory.join("worker.yaml"));
        dev.await_line(&format!("default/{template}"));
        let (status, body) = dev.get("localhost", path);
        assert!(status == 200 && body.contains(expected), "{template}: {status} {body}");
    }
}

#[test]
fn a_project_without_a_bundler_says_how_to_install_it() {
    let project = project();
    fs::remove_file(project.path().join("node_modules/.bin/esbuild")).unwrap();
    let output = Command::new(TENON).arg("check").arg(project.path()).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && errors.contains("npm install"), "{errors}");
}
