//! Measures requests for a static file of 10 KiB to a router, beside nginx, which sends the file
//! with `sendfile`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt as _;
use tenon_assets::Packer;
use tenon_proto::catalog::Assets;
use tenon_proto::id::{SiteId, WorkerId};
use tenon_proto::revision::Revision;

use crate::contest::{self, Contender, Record as Measured, Schedule};
use crate::hello::ANSWER;
use crate::load::{Load, RequestSpec};
use crate::objective::Objective;
use crate::peers::Peers;
use crate::tenon::{NODE, ROUTER, Testbed};
use crate::unit::micros;

/// The file that is measured. It is not text, so no contender compresses it.
const FILE: &str = "image.png";
const PATH: &str = "/image.png";
/// Size of the file in bytes.
const BYTES: usize = 10 * 1024;

/// Maximum CPU time of a request to Tenon, as a multiple of that of nginx.
const MAX_RATIO: f64 = 1.5;

#[derive(Debug)]
pub struct Record {
    tenon: Measured,
    nginx: Measured,
}

/// Measures both contenders in turn, under the same load.
///
/// # Errors
/// Fails if a contender does not start, or if a request fails.
pub fn run(
    peers: &Peers,
    programs: &Path,
    load: &Load,
    schedule: Schedule,
) -> anyhow::Result<Record> {
    let root = peers.scratch.join("static");
    fs::create_dir(&root)?;
    fs::write(root.join("index.html"), ANSWER)?;
    fs::write(root.join(FILE), vec![7; BYTES])?;
    let testbed = open_testbed(&root)?;
    let program = |name| peers.placement.contender(&programs.join(name));
    let tenon = testbed.start(&peers.scratch.join("tenon"), program(NODE), program(ROUTER))?;
    let mut contenders = [Contender::from(tenon), peers.nginx_serving(&root)?];
    let load = Load { request: RequestSpec::path(PATH), ..load.clone() };
    let records = contest::run(&mut contenders, &load, schedule)?;
    let [tenon, nginx] = <[_; 2]>::try_from(records).ok().context("a contender has no record")?;
    Ok(Record { tenon, nginx })
}

/// Opens a testbed with a Worker that has the files of a folder.
fn open_testbed(root: &Path) -> anyhow::Result<Testbed> {
    let pack = tempfile::tempfile()?;
    let mut packer = Packer::new(pack.try_clone()?);
    for name in ["index.html", FILE] {
        packer.add(name, &mut fs::File::open(root.join(name))?)?;
    }
    let id = SiteId::new(packer.finish()?);
    let packs = BTreeMap::from([(id.as_bytes().to_vec(), Arc::new(pack))]);
    let testbed = Testbed::open(1)?;
    testbed.serve_assets(Arc::new(move |revision: Arc<Revision>| {
        let assets = revision.assets.as_ref();
        let pack = assets.and_then(|assets| packs.get(&assets.site).cloned());
        std::future::ready(pack).boxed()
    }));
    let assets = Assets { site: id.as_bytes().to_vec(), ..Assets::default() };
    testbed.publish(Revision {
        assets: Some(assets),
        ..Revision::from_source(WorkerId::new("bench", "hello"), "export default {}")
    });
    Ok(testbed)
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "A static file of {} KiB\n", BYTES / 1024)?;
        for record in [&self.tenon, &self.nginx] {
            let (cpu, rate) = (micros(record.cpu()), record.requests_per_second());
            writeln!(
                f,
                "{:<8} {cpu} µs of CPU time per request, {rate:.0} requests/s",
                record.name
            )?;
        }
        Ok(())
    }
}

pub fn objective(record: Option<&Record>) -> Objective {
    let bound = |record: &Record| record.nginx.cpu().mul_f64(MAX_RATIO);
    let measured: Option<Duration> = record.map(|record| record.tenon.cpu());
    Objective::time(
        format!("CPU time of a request for a static file, compared with {MAX_RATIO} × nginx"),
        measured,
        record.map(bound),
    )
}
