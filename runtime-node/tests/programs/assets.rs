//! Serves the files that a framework's build makes for browsers. The framework's Worker requests
//! them through the binding `ASSETS`, from another Worker that has the files as its modules.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use bytes::{Buf as _, Bytes};
use futures::future::LocalBoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use tenon_engine::{FetchResponse, Isolate, ResponseBody, StreamError};
use tenon_proto::failure::Failure;
use tenon_web::{Call, CallResponse, Services};

use crate::harness::{Loaded, Shard};

/// The name of the Worker that serves the files.
pub(crate) const NAME: &str = "assets";

/// The name of the framework's binding to this Worker.
pub(crate) const BINDING: &str = "ASSETS";

const WORKER: &str = include_str!("assets/worker.js");

/// Passes calls to the Worker that serves the files, the only one that can be called.
pub(crate) struct Assets(Rc<Isolate>);

impl Assets {
    /// Starts the Worker that serves the files.
    ///
    /// # Arguments
    /// * `directory` - the directory of the files, which need not exist.
    pub(crate) async fn start(shard: &Shard, directory: &Path) -> Self {
        let mut files = BTreeMap::new();
        read(directory, "", &mut files);
        let list = serde_json::to_string(&files.keys().collect::<Vec<_>>())
            .expect("names serialize to JSON");
        let worker = shard.modules(&[("worker.js", WORKER), ("files.json", &list)]);
        let worker = worker.limits(|limits| (limits.cpu_ms, limits.startup_ms) = (20_000, 20_000));
        let worker = files.into_iter().fold(worker, |worker, (name, content)| {
            worker.module(&format!("files/{name}"), content)
        });
        let Loaded(isolate) = worker.start().await.expect("the Worker of the assets did not start");
        Self(isolate)
    }
}

fn read(directory: &Path, prefix: &str, files: &mut BTreeMap<String, Bytes>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.expect("the directory is unreadable").path();
        let name = format!(
            "{prefix}{}",
            path.file_name().expect("a directory entry has a name").to_string_lossy()
        );
        if path.is_dir() {
            read(&path, &format!("{name}/"), files);
        } else {
            files.insert(name, std::fs::read(path).expect("the file is unreadable").into());
        }
    }
}

impl Services for Assets {
    fn call(&self, call: Call) -> LocalBoxFuture<'static, Result<CallResponse, Failure>> {
        assert!(call.callee.as_str().ends_with(NAME), "a binding other than the assets was called");
        let isolate = Rc::clone(&self.0);
        async move {
            let FetchResponse { status, headers, body } = isolate.fetch(call.request).await?;
            let body = match body {
                ResponseBody::Full(mut piece) => {
                    let bytes = piece.copy_to_bytes(piece.remaining());
                    stream::iter((!bytes.is_empty()).then_some(Ok(bytes))).boxed_local()
                }
                ResponseBody::Stream(sending) => sending
                    .map_err(|failure| StreamError::Lost(failure.message.into()))
                    .boxed_local(),
            };
            Ok(CallResponse { status, headers, body: Some(body) })
        }
        .boxed_local()
    }
}
