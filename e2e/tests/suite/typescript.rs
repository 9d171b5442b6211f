//! Tests that Workers in TypeScript respond, and that every error names the author's file, line and
//! column.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tenon_crds::{ConditionStatus, Worker, WorkerSpec};
use tenon_e2e::{SOON, Scenario, await_condition};

/// Time limit for the report of a crash loop. A node reports the crash loop at the second failure,
/// which follows after a pause.
const NOTICED: Duration = Duration::from_secs(30);

/// A module that is compiled to fewer lines, because its types are removed.
const TOTAL: &str = "export interface Item {
  name: string;
  price: number;
}

type Items = readonly Item[];

export enum Currency { Euro = 'EUR' }

export function total(items: Items): number {
  if (items.length === 0) {
    const why: string = 'an empty menu';
    throw new RangeError(why);
  }
  return items.reduce((sum: number, item) => sum + item.price, 0);
}
";

const VIEW: &str = "/** @jsx h */
import { h } from './h.ts';
import type { Item } from './total.ts';

export const Menu = ({ items }: { items: Item[] }) => <ul>{items.map((item) => <li>{item.name}</li>)}</ul>;
";

const H: &str = "type Node = string | Node[];

export function h(tag: ((props: any) => string) | string, props: object | null, ...children: Node[]): string {
  if (typeof tag === 'function') return tag({ ...props });
  return `<${tag}>${children.flat(Infinity).join('')}</${tag}>`;
}
";

const WORKER: &str = "/** @jsx h */
import { h } from './h.ts';
import { Menu } from './view.tsx';
import { Currency, total, type Item } from './lib/total.ts';
import menu from './menu.json' with { type: 'json' };

const items = (path: string) => (path === '/' ? (menu.items satisfies Item[]) : []);

export default {
  async fetch(request: Request): Promise<Response> {
    const wanted = items(new URL(request.url).pathname);
    return new Response(`${<Menu items={wanted} />} ${total(wanted)} ${Currency.Euro}`);
  },
} satisfies { fetch(request: Request): Promise<Response> };
";

const MENU: &str =
    r#"{ "items": [{ "name": "soup", "price": 4 }, { "name": "bread", "price": 2 }] }"#;

pub async fn a_worker_in_typescript_answers_and_its_log_names_the_authors_positions(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    let view = VIEW.replace("./total.ts", "./lib/total.ts");
    let modules = [
        ("worker.tsx", WORKER),
        ("view.tsx", &view),
        ("h.ts", H),
        ("lib/total.ts", TOTAL),
        ("menu.json", MENU),
    ];
    namespace.apply(&typescript("menu", &modules)).await?;
    let host = namespace.host("menu");
    scenario.await_answer(&host, "<ul><li>soup</li><li>bread</li></ul> 6 EUR", SOON).await?;

    let answer = scenario.router.connection().get(&host, "/empty").await?;
    ensure!(
        answer.status == 500 && !answer.body.contains("menu"),
        "the response is {} {}",
        answer.status,
        answer.body
    );
    let line = await_log_line(&scenario, "RangeError: an empty menu").await?;
    let text = line["fields"]["message"]
        .as_str()
        .or(line["message"].as_str())
        .context("the log line has no message")?;
    for place in ["lib/total.ts:13:11: ", "at total (lib/total.ts:13:11)", "worker.tsx:12:"] {
        ensure!(text.contains(place), "{place:?} is not in {text}");
    }
    Ok(())
}

pub async fn a_syntax_error_in_typescript_names_the_authors_position(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let bad = TOTAL.replace("const why: string = 'an empty menu';", "const why: string = ;");
    let modules = [
        ("worker.tsx", WORKER),
        ("view.tsx", VIEW),
        ("h.ts", H),
        ("lib/total.ts", &*bad),
        ("menu.json", MENU),
    ];
    scenario.namespace.apply(&typescript("menu", &modules)).await?;
    let ready = scenario.namespace.await_ready("menu", ConditionStatus::False).await?;
    ensure!(ready.reason == "SyntaxError", "the condition Ready is {ready:?}");
    ensure!(
        ready.message.starts_with("lib/total.ts:12:25: Unexpected token\n  12 | "),
        "the condition Ready is {ready:?}"
    );
    Ok(())
}

pub async fn a_start_error_in_typescript_names_the_authors_position_in_the_status(
    scenario: Scenario,
) -> anyhow::Result<()> {
    let namespace = &scenario.namespace;
    let worker = "import { total } from './lib/total.ts';\nexport default { fetch: () => new Response(`${total([])}`) };\ntotal([]);\n";
    namespace.apply(&typescript("menu", &[("worker.ts", worker), ("lib/total.ts", TOTAL)])).await?;
    namespace.await_ready("menu", ConditionStatus::True).await?;
    let (host, mut connection) = (namespace.host("menu"), scenario.router.connection());
    let condition = await_condition("the crash loop to be noticed", NOTICED, async || {
        let answer = connection.get(&host, "/").await?;
        ensure!(
            answer.status != 200,
            "the Worker answers although it must not start: {}",
            answer.body
        );
        let status = namespace.worker("menu").await?.status.context("the Worker has no status")?;
        let healthy = status.conditions.into_iter().find(|condition| condition.type_ == "Healthy");
        healthy.context("the Worker has no condition Healthy")
    })
    .await?;
    ensure!(
        condition.message.contains("worker_start_failed at lib/total.ts:13:11 on"),
        "the condition is {condition:?}"
    );
    Ok(())
}

fn typescript(name: &str, modules: &[(&str, &str)]) -> Worker {
    let owned = modules.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let mut worker = Worker::new(name, WorkerSpec::with_modules(owned));
    worker.spec.entrypoint = modules.first().map(|(name, _)| (*name).to_owned());
    worker
}

/// Waits until a node has logged a line with `text` for a Worker of the test's namespace, and
/// returns the line.
async fn await_log_line(scenario: &Scenario, text: &str) -> anyhow::Result<Value> {
    let namespace_prefix = format!("{}/", scenario.namespace.name());
    await_condition(&format!("a node to log {text:?}"), SOON, async || {
        for file in std::fs::read_dir(scenario.logs())? {
            let path = file?.path();
            let log = std::fs::read_to_string(&path)?;
            let line =
                log.lines().find(|line| line.contains(text) && line.contains(&namespace_prefix));
            if let Some(line) = line {
                return Ok(serde_json::from_str(line).unwrap_or_else(|_| json!({"message": line})));
            }
        }
        anyhow::bail!("no log has a line with this text and the namespace")
    })
    .await
}
