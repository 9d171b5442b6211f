//! `tenon init`: creates a project from a template.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::ValueEnum;

use crate::manifest::MAX_NAME;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory to create. Its name becomes that of the Worker.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,

    /// Kind of project to create.
    #[arg(long, short, value_enum, default_value_t = Template::Typescript)]
    template: Template,
}

/// The kind of project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Template {
    /// A handler in JavaScript.
    Hello,
    /// An API in TypeScript, with several modules.
    Typescript,
    /// A handler that is called on a schedule.
    Cron,
    /// A WebSocket handler, with a page that connects to it.
    Websocket,
    /// A static site, with an API.
    Static,
    /// An API with the npm package Hono.
    Hono,
    /// A single-page application in React, with an API.
    React,
}

/// The placeholder for the Worker's name in a template's files and paths. The name of the folder of
/// modules contains the placeholder, because the folder becomes a ConfigMap of the same name, which
/// the Workers of a namespace must not share.
const NAME: &str = "NAME";

/// The file that lists the npm packages of a project.
const PACKAGES: &str = "package.json";

impl Template {
    /// Returns the files by their paths in the project.
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Hello => &[
                ("worker.yaml", include_str!("init/hello/worker.yaml")),
                ("NAME-code/worker.js", include_str!("init/hello/worker.js")),
            ],
            Self::Typescript => &[
                ("worker.yaml", include_str!("init/typescript/worker.yaml")),
                ("tsconfig.json", include_str!("init/typescript/tsconfig.json")),
                ("NAME-code/worker.ts", include_str!("init/typescript/worker.ts")),
                ("NAME-code/responses.ts", include_str!("init/typescript/responses.ts")),
            ],
            Self::Cron => &[
                ("worker.yaml", include_str!("init/cron/worker.yaml")),
                ("NAME-code/worker.js", include_str!("init/cron/worker.js")),
            ],
            Self::Websocket => &[
                ("worker.yaml", include_str!("init/websocket/worker.yaml")),
                ("NAME-code/worker.js", include_str!("init/websocket/worker.js")),
            ],
            Self::Static => &[
                ("worker.yaml", include_str!("init/static/worker.yaml")),
                ("NAME-code/worker.js", include_str!("init/static/worker.js")),
                ("public/index.html", include_str!("init/static/index.html")),
                ("public/404.html", include_str!("init/static/404.html")),
                ("public/app.js", include_str!("init/static/app.js")),
                ("public/style.css", include_str!("init/static/style.css")),
            ],
            Self::Hono => &[
                ("worker.yaml", include_str!("init/hono/worker.yaml")),
                (PACKAGES, include_str!("init/hono/package.json")),
                ("tsconfig.json", include_str!("init/tsconfig.bundled.json")),
                (".gitignore", include_str!("init/hono/gitignore")),
                ("src/index.ts", include_str!("init/hono/index.ts")),
            ],
            Self::React => &[
                ("worker.yaml", include_str!("init/react/worker.yaml")),
                (PACKAGES, include_str!("init/react/package.json")),
                ("tsconfig.json", include_str!("init/tsconfig.bundled.json")),
                (".gitignore", include_str!("init/react/gitignore")),
                ("src/index.ts", include_str!("init/react/index.ts")),
                ("client/app.tsx", include_str!("init/react/app.tsx")),
                ("public/index.html", include_str!("init/react/index.html")),
            ],
        }
    }

    fn has_packages(self) -> bool {
        self.files().iter().any(|(path, _)| *path == PACKAGES)
    }
}

/// Creates the project, and prints the commands to run next.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    create(&args.directory, args.template)?;
    let directory = args.directory.display();
    println!("created {directory}");
    if args.template.has_packages() {
        println!("next: npm install --prefix {directory}");
    }
    println!("next: tenon dev {directory}/worker.yaml");
    println!("next: tenon deploy {directory}/worker.yaml");
    Ok(())
}

fn create(directory: &Path, template: Template) -> anyhow::Result<()> {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !is_name(name) {
        bail!(
            "{name:?} cannot be the name of a Worker; use at most {MAX_NAME} lowercase letters, digits and dashes, with a letter or digit at both ends"
        );
    }
    if directory.exists() {
        bail!("{} already exists; choose another directory", directory.display());
    }
    for (path, content) in template.files() {
        let path = directory.join(path.replace(NAME, name));
        let folder = path.parent().unwrap_or(directory);
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let content = content.replace(NAME, name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns whether a Worker can have this name, which is a DNS label.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{load, manifest};

    #[test]
    fn every_template_without_packages_is_a_worker_without_problems() {
        let folder = tempfile::tempdir().unwrap();
        let templates =
            Template::value_variants().iter().filter(|template| !template.has_packages());
        for template in templates {
            let directory = folder.path().join(format!("{template:?}").to_lowercase());
            create(&directory, *template).unwrap();
            let settings = load::Settings {
                domain: "localhost".to_owned(),
                env: [].into(),
                has_cluster: false,
                debug_directory: None,
            };
            let manifests = manifest::read(&[directory.join("worker.yaml")]);
            let load = load::load(manifests, &settings, |_| load::Served::default());
            assert_eq!(load.problems, [], "{template:?}");
            let ids: Vec<_> = load.workers.keys().map(|id| id.name().to_owned()).collect();
            assert_eq!(ids, [directory.file_name().unwrap().to_str().unwrap()]);
        }
    }

    #[test]
    fn an_existing_directory_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let error = create(&folder.path().join("My_Shop"), Template::Hello).unwrap_err();
        assert!(error.to_string().contains("cannot be the name of a Worker"));
        let directory = folder.path().join("shop");
        create(&directory, Template::Hello).unwrap();
        let error = create(&directory, Template::Cron).unwrap_err();
        assert!(error.to_string().contains("choose another directory"), "{error}");
    }
}
