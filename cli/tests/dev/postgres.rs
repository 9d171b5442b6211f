//! Runs a PostgreSQL server for one test, on a free port, and stops it when the test ends.
#![allow(clippy::unwrap_used)] // A test harness has no caller to return an error to.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::await_condition;

/// The directory in which distributions put the programs of each version, which are not on the
/// PATH.
const VERSIONS: &str = "/usr/lib/postgresql";

const ROOT: u32 = 0;

/// The user and group id of `nobody`, who runs the programs in place of root, because they refuse
/// to run as root.
const ACCOUNT: u32 = 65_534;

const PASSWORD: &str = "s3cret";

pub struct Postgres {
    server: Child,
    port: u16,
    programs: PathBuf,
    directory: TempDir,
}

impl Postgres {
    /// Starts a server with an empty database, and waits until it accepts connections.
    pub fn start() -> Self {
        let (programs, directory) = (programs(), tempfile::tempdir().unwrap());
        let password = directory.path().join("password");
        fs::write(&password, PASSWORD).unwrap();
        if owner(directory.path()) == ROOT {
            for path in [directory.path(), &password] {
                chown(path, Some(ACCOUNT), Some(ACCOUNT)).unwrap();
            }
        }
        let data = directory.path().join("data");
        let initialized = program(&programs, "initdb", directory.path())
            .args(["--username", "tenon", "--auth", "scram-sha-256", "--encoding", "UTF8"])
            .args(["--no-locale", "--no-sync", "--pwfile"])
            .arg(&password)
            .arg(&data)
            .stdout(Stdio::null())
            .status();
        assert!(initialized.unwrap().success());
        let port = free_port();
        let server = program(&programs, "postgres", directory.path())
            .args(["-F", "-h", "127.0.0.1", "-p", &port.to_string(), "-k"])
            .arg(directory.path())
            .arg("-D")
            .arg(&data)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let postgres = Self { server, port, programs, directory };
        await_condition("PostgreSQL accepts connections", || postgres.accepts("select 1"));
        postgres
    }

    /// Returns the URL of the database, with the password.
    pub fn url(&self) -> String {
        format!("postgres://tenon:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    /// Runs a file of statements.
    pub fn run(&self, file: &Path) {
        let status = self.psql().arg("--file").arg(file).status();
        assert!(status.unwrap().success(), "{}", file.display());
    }

    fn accepts(&self, statement: &str) -> bool {
        self.psql().args(["--command", statement]).stderr(Stdio::null()).status().unwrap().success()
    }

    fn psql(&self) -> Command {
        let mut psql = program(&self.programs, "psql", self.directory.path());
        psql.args(["--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", &self.url()]);
        psql.stdout(Stdio::null());
        psql
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // On SIGINT, the server disconnects its clients and exits.
        let _ = Command::new("kill").args(["-INT", &self.server.id().to_string()]).status();
        let _ = self.server.wait();
    }
}

/// Returns a command that runs a program of PostgreSQL as the owner of a directory.
fn program(programs: &Path, name: &str, directory: &Path) -> Command {
    let program = programs.join(name);
    let mut command = if owner(directory) == ACCOUNT {
        let account = ACCOUNT.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &account, "--regid", &account, "--clear-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(directory);
    command
}

fn owner(directory: &Path) -> u32 {
    fs::metadata(directory).unwrap().uid()
}

/// Returns the directory of the newest installed version.
fn programs() -> PathBuf {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().map(|entry| entry.unwrap().path());
    let found =
        versions.map(|version| version.join("bin")).filter(|bin| bin.join("initdb").exists());
    let version = |bin: &PathBuf| bin.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    found
        .max_by_key(version)
        .unwrap_or_else(|| panic!("{VERSIONS} has no PostgreSQL; run `make tools`"))
}

/// Returns a port that is free now. If another program takes the port before the server does, the
/// test fails.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}
