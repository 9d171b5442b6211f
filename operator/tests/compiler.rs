//! Tests the compiler process, as the operator runs it.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenon_compiler::Outcome;
use tenon_compiler::process::{Compiler, CompilerError, Job};

const HANDLER: &str = "export default { fetch() { return new Response() } }";

fn compiler() -> Compiler {
    Compiler::new(env!("CARGO_BIN_EXE_tenon-operator").into())
}

fn job(modules: &[(&str, &str)]) -> Job {
    let owned =
        |(name, text): &(&str, &str)| ((*name).to_owned(), Bytes::copy_from_slice(text.as_bytes()));
    Job {
        modules: modules.iter().map(owned).collect(),
        entrypoint: modules[0].0.to_owned(),
        flags: [].into(),
    }
}

/// Returns a job with nested conditional types: each level doubles the number of ways in which the
/// parser tries to read them.
fn endless() -> Job {
    let (levels, open, close) = (200, "A extends(infer B extends (", ")?1:2)?1:2");
    let types = format!("type C={}1{};\n{HANDLER}", open.repeat(levels), close.repeat(levels));
    job(&[("worker.ts", "import './types'; export default {}"), ("types.ts", &types)])
}

async fn outcome(compiler: &Compiler, namespace: &str, job: &Job) -> Outcome {
    compiler.compile(namespace, job).await.expect("the compiler process gave no result")
}

#[tokio::test]
async fn a_compiler_process_gives_the_same_result_as_the_library() {
    let good = job(&[
        ("worker.ts", "let a: string; export default {}"),
        ("a.json", "{}"),
        ("b.wasm", "\0asm"),
    ]);
    let bad = job(&[("worker.ts", "let é: string = ;")]);
    for Job { modules, entrypoint, flags } in [good, bad] {
        let here = tenon_compiler::compile(&modules, &entrypoint, &flags);
        assert_eq!(outcome(&compiler(), "shop", &Job { modules, entrypoint, flags }).await, here);
    }
}

#[tokio::test]
async fn a_module_that_compiles_endlessly_is_stopped_and_named() {
    let errors = outcome(&compiler(), "shop", &endless()).await.unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let message = errors[0].to_string();
    assert!(message.starts_with("types.ts:1:1: the module takes more than"), "{message}");
}

#[tokio::test]
async fn modules_that_overflow_the_compilers_stack_are_refused() {
    // Each operator is a level of nesting, and all levels together need more stack than there is.
    let code = format!("export default {}0", "!-".repeat(8 << 20));
    let errors = outcome(&compiler(), "shop", &job(&[("worker.js", &code)])).await.unwrap_err();
    let message = errors[0].to_string();
    assert!(message.contains("out of stack") || message.contains("takes more than"), "{message}");
}

#[tokio::test]
async fn slow_modules_of_one_tenant_do_not_delay_others() {
    let (compiler, good) = (compiler(), job(&[("worker.js", HANDLER)]));
    let slow: Vec<_> = (0..20)
        .map(|_| {
            let (compiler, endless) = (compiler.clone(), endless());
            tokio::spawn(async move { compiler.compile("hostile", &endless).await })
        })
        .collect();
    tokio::task::yield_now().await;
    for _ in 0..3 {
        assert!(outcome(&compiler, "shop", &good).await.is_ok());
    }
    // Most of the other tenant's twenty jobs, which came first, have not ended.
    let ended = slow.iter().filter(|slow| slow.is_finished()).count();
    assert!(ended < 10, "{ended} slow modules were compiled first");
    // Dropping the futures kills the compiler processes.
    slow.iter().for_each(tokio::task::JoinHandle::abort);
    for slow in slow {
        let _ = slow.await;
    }
    assert!(outcome(&compiler, "hostile", &good).await.is_ok());
}

#[tokio::test]
async fn a_broken_compiler_program_is_not_an_error_of_the_worker() {
    let job = job(&[("worker.js", HANDLER)]);
    for (program, exists) in [("/nowhere/at/all", false), ("/bin/false", true), ("/bin/true", true)]
    {
        let error = Compiler::new(program.into()).compile("shop", &job).await.unwrap_err();
        assert_eq!(matches!(error, CompilerError::NoResult), exists, "{program}: {error}");
    }
}

#[tokio::test]
async fn a_worker_of_many_modules_is_compiled_in_a_process() {
    let names: Vec<String> = (0..200).map(|n| format!("{n}.js")).collect();
    let large = format!("export const a = `{}`;", "x".repeat(20_000));
    let all = names.iter().map(|name| (name.as_str(), large.as_str()));
    let all: Vec<_> = [("worker.js", HANDLER)].into_iter().chain(all).collect();
    let job = job(&all);
    let compiled: BTreeMap<_, _> = outcome(&compiler(), "shop", &job).await.unwrap();
    assert_eq!(compiled, job.modules);
}
