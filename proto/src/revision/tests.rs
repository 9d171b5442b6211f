//! Tests that a revision is assembled from its messages, and which messages are refused.

use super::*;

fn revision() -> Revision {
    let modules = [
        ("worker.js".to_owned(), Bytes::from_static(b"export default {}")),
        ("empty.js".to_owned(), Bytes::new()),
        ("large.js".to_owned(), Bytes::from(vec![b' '; 2 * MODULE_CHUNK + 1])),
    ];
    Revision {
        name: "cart-0123456789".into(),
        bindings: [("GREETING".to_owned(), Binding::Var("hello".to_owned()))].into(),
        ..Revision::with_modules(WorkerId::new("shop", "cart"), modules)
    }
}

/// Returns a revision whose modules come from an artifact.
fn from_artifact() -> Revision {
    let artifact = format!("sha256:{}", "ab".repeat(32));
    Revision { artifact: Some(artifact.parse().unwrap()), ..revision() }
}

/// Returns a revision in which every optional field is set, except the artifact and the salt.
fn with_every_option() -> Revision {
    let mut bindings = revision().bindings;
    bindings.insert("KEY".to_owned(), Binding::Secret("k".to_owned()));
    bindings.insert("AUTH".to_owned(), service("auth"));
    bindings.insert("ADMIN".to_owned(), entrypoint("auth", "Admin"));
    bindings.insert("ASSETS".to_owned(), Binding::Assets);
    Revision {
        assets: Some(assets()),
        bindings,
        limits: Limits { subrequests: 7, ..Limits::default() },
        state: StatePolicy::Reset,
        egress: Egress::Only(vec![
            "*.example.com:8443".parse().unwrap(),
            "api.example.net".parse().unwrap(),
        ]),
        compatibility_flags: CompatibilityFlag::ALL.into(),
        ..revision()
    }
}

fn assets() -> catalog::Assets {
    catalog::Assets {
        site: vec![7; 32],
        html_handling: catalog::HtmlHandling::DropTrailingSlash.into(),
        not_found_handling: catalog::NotFoundHandling::NotFoundPage.into(),
        run_worker_first: vec!["/api/*".to_owned()],
    }
}

fn service(name: &str) -> Binding {
    Binding::Service(WorkerId::new("shop", name).into())
}

fn entrypoint(name: &str, entrypoint: &str) -> Binding {
    let worker = WorkerId::new("shop", name);
    Binding::Service(BoundService { worker, entrypoint: Some(entrypoint.to_owned()) })
}

/// Returns messages of modules only, each module in one chunk.
fn chunks(
    modules: impl IntoIterator<Item = (String, usize)>,
) -> impl Iterator<Item = GetRevisionResponse> {
    modules.into_iter().map(|(name, len)| {
        let chunk = catalog::ModuleChunk { name, data: vec![b' '; len].into(), end: true };
        GetRevisionResponse { part: Some(Part::Module(chunk)) }
    })
}

fn messages(revision: &Revision) -> impl Iterator<Item = GetRevisionResponse> + use<> {
    revision.to_messages(&revision.digest())
}

fn assemble(
    messages: impl IntoIterator<Item = GetRevisionResponse>,
) -> Result<Revision, MalformedRevision> {
    let mut assembler = Assembler::default();
    for message in messages {
        assembler.push(message)?;
    }
    assembler.finish().map(|(_, revision)| revision)
}

#[test]
fn a_revision_is_assembled_from_its_messages_unchanged() {
    assert_eq!(assemble(messages(&revision())), Ok(revision()));
    assert_eq!(assemble(messages(&with_every_option())), Ok(with_every_option()));
    let closed = Revision { egress: Egress::Only(Vec::new()), ..revision() };
    assert_eq!(assemble(messages(&closed)), Ok(closed), "an empty list of hosts was lost");
}

#[test]
fn the_digest_of_an_artifact_stands_for_its_modules() {
    assert_eq!(assemble(messages(&from_artifact())), Ok(from_artifact()));
    let without = Revision { modules: BTreeMap::new(), ..from_artifact() };
    assert_eq!(without.digest(), from_artifact().digest());
}

#[test]
fn changed_modules_of_an_artifact_are_detected() {
    let head = messages(&from_artifact()).next();
    let mut other = from_artifact();
    other.modules.insert("worker.js".to_owned(), Bytes::from_static(b"export default []"));
    let mixed = head.into_iter().chain(messages(&other).skip(1));
    assert_eq!(assemble(mixed), Err(MalformedRevision::WrongModules));
}

#[test]
fn a_limit_absent_from_an_older_operator_has_its_default() {
    let mut messages: Vec<_> = messages(&revision()).collect();
    if let Some(Part::Head(head)) = &mut messages[0].part {
        head.limits.as_mut().unwrap().subrequests = None;
    }
    assert_eq!(assemble(messages), Ok(revision()));
}

#[test]
fn an_unknown_flag_is_refused() {
    let mut messages: Vec<_> = messages(&revision()).collect();
    if let Some(Part::Head(head)) = &mut messages[0].part {
        head.compatibility_flags.push("time_travel".to_owned());
    }
    assert_eq!(assemble(messages), Err(UnknownFlag("time_travel".to_owned()).into()));
}

#[test]
fn too_many_bindings_are_refused_with_the_head() {
    let var = |n: usize| (format!("V{n}"), Binding::Var(String::new()));
    let with = |count| Revision { bindings: (0..count).map(var).collect(), ..revision() };
    assert!(assemble(messages(&with(MAX_BINDINGS))).is_ok());
    let head = messages(&with(MAX_BINDINGS + 1)).next().unwrap();
    assert_eq!(Assembler::default().push(head), Err(TooLarge::Bindings.into()));
}

#[test]
fn a_name_with_two_bindings_is_refused() {
    let mut messages: Vec<_> = messages(&revision()).collect();
    if let Some(Part::Head(head)) = &mut messages[0].part {
        head.secrets.clone_from(&head.vars);
    }
    assert_eq!(assemble(messages), Err(MalformedRevision::DuplicateBinding("GREETING".to_owned())));
}

#[test]
fn a_lost_message_is_detected() {
    let count = messages(&revision()).count();
    for lost in 0..count {
        let rest = messages(&revision()).enumerate().filter(|(i, _)| *i != lost).map(|(_, m)| m);
        assert!(assemble(rest).is_err(), "a revision was assembled without message {lost}");
    }
}

#[test]
fn a_changed_byte_is_detected() {
    let tampered = messages(&revision()).map(|mut message| {
        if let Some(Part::Module(chunk)) = &mut message.part {
            let mut data = chunk.data.to_vec();
            data.iter_mut().take(1).for_each(|byte| *byte ^= 1);
            chunk.data = data.into();
        }
        message
    });
    assert!(matches!(assemble(tampered), Err(MalformedRevision::WrongDigest { .. })));
}

#[test]
fn a_revision_at_the_limits_is_assembled() {
    const REST: usize = 16 * MAX_MODULES;
    let module = |n: usize| {
        (
            format!("{n}.js"),
            Bytes::from(vec![b' '; if n == 0 { MAX_SOURCE_BYTES - REST } else { 9 }]),
        )
    };
    let modules = (0..MAX_MODULES).map(module).collect();
    let large = Revision { entrypoint: "0.js".into(), modules, ..revision() };
    assert_eq!(assemble(messages(&large)), Ok(large));
}

#[test]
fn an_oversized_revision_is_refused_before_it_is_complete() {
    let mut announced = messages(&revision()).next().unwrap();
    if let Some(Part::Head(head)) = &mut announced.part {
        head.modules = MAX_MODULES as u32 + 1;
    }
    assert_eq!(Assembler::default().push(announced), Err(TooLarge::Modules.into()));

    let refused = |modules: Vec<(String, usize)>| assemble(chunks(modules)).unwrap_err();
    let many = (0..=MAX_MODULES).map(|n| (format!("{n}.js"), 0)).collect();
    assert_eq!(refused(many), TooLarge::Modules.into());
    let all = (0..=1).map(|n| (format!("{n}.js"), MAX_SOURCE_BYTES / 2)).collect();
    assert_eq!(refused(all), TooLarge::Source.into());
    assert_eq!(
        refused(vec![("long".repeat(MAX_SOURCE_BYTES / 4 + 1), 0)]),
        TooLarge::Source.into()
    );
}

#[test]
fn an_endless_module_is_refused() {
    let endless = std::iter::once("endless.js").chain(std::iter::repeat("")).map(|name| {
        let chunk = catalog::ModuleChunk {
            name: name.into(),
            data: vec![b' '; MODULE_CHUNK].into(),
            end: false,
        };
        GetRevisionResponse { part: Some(Part::Module(chunk)) }
    });
    assert_eq!(assemble(endless), Err(TooLarge::Source.into()));
}

#[test]
fn every_field_is_part_of_the_digest() {
    let mut digests = BTreeSet::from([revision().digest()]);
    let changes: [fn(&mut Revision); 21] = [
        |r| r.worker = WorkerId::new("shop", "basket"),
        |r| r.name.push('x'),
        |r| r.entrypoint = "empty.js".into(),
        |r| drop(r.modules.remove("empty.js")),
        |r| drop(r.bindings.insert("GREETING".into(), Binding::Var("hi".into()))),
        |r| drop(r.bindings.insert("KEY".into(), Binding::Secret("k".into()))),
        |r| r.limits.cpu_ms += 1,
        |r| r.limits.subrequests += 1,
        |r| r.state = StatePolicy::Reset,
        |r| r.egress = Egress::Only(Vec::new()),
        |r| r.egress = Egress::Only(vec!["example.com".parse().unwrap()]),
        |r| drop(r.bindings.insert("AUTH".into(), service("auth"))),
        |r| drop(r.bindings.insert("AUTH".into(), entrypoint("auth", "Admin"))),
        |r| r.compatibility_flags = CompatibilityFlag::ALL.into(),
        |r| r.salt = Bytes::from_static(b"uid"),
        |r| r.artifact = from_artifact().artifact,
        |r| r.assets = Some(assets()),
        |r| r.assets = Some(catalog::Assets { html_handling: 3, ..assets() }),
        |r| r.assets = Some(catalog::Assets { not_found_handling: 2, ..assets() }),
        |r| r.assets = Some(catalog::Assets { run_worker_first: vec!["/x".into()], ..assets() }),
        |r| drop(r.bindings.insert("ASSETS".into(), Binding::Assets)),
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut changed = revision();
        change(&mut changed);
        assert!(digests.insert(changed.digest()), "change {i} does not change the digest");
    }
}

/// Isolates are kept by digest, and nodes and operators of several versions must agree on digests.
#[test]
fn digests_do_not_change_from_version_to_version() {
    let text = |value: &str| value.to_owned();
    // In the order of names, the kinds of bindings are mixed.
    let mixed = Revision {
        modules: [("worker.js".to_owned(), Bytes::from_static(b"export default {}"))].into(),
        bindings: [
            ("A", Binding::Secret(text("3"))),
            ("B", Binding::Var(text("1"))),
            ("C", service("auth")),
            ("D", Binding::Var(text("2"))),
            ("E", Binding::Secret(text("4"))),
            ("F", service("other")),
        ]
        .map(|(name, binding)| (name.to_owned(), binding))
        .into(),
        egress: Egress::Only(Vec::new()),
        ..revision()
    };
    let salted = Revision { salt: Bytes::from_static(b"uid"), ..mixed.clone() };
    for (revision, digest) in [
        (revision(), "26098021518e676e8d020f75f9b48c1c08b7a953755205b805dd06296409aeaa"),
        (with_every_option(), "c13e3112cf5730527ddf37bc9d5cfc72af6865231a1052e6368ee071cc46c6f4"),
        (mixed.clone(), "348f9f85275cbae2b5312d75e0c749ac09a320f2618b5487b13b5deffbb046e0"),
        (salted, "20448134b432d6c4d684b60902e36ee027dbfdadf67e16292a144ab466b70fe1"),
        (from_artifact(), "d2b44d1273123b1782662c90ed486029c057cb3fde9884fa85d4a4fa4f0a6fb8"),
    ] {
        // The digest contains the limits as they are; their defaults may change.
        let limits = Limits { cpu_ms: 50, startup_ms: 400, ..revision.limits };
        let revision = Revision { limits, ..revision };
        assert_eq!(revision.digest().to_string(), digest, "{:?}", revision.egress);
    }
}

#[test]
fn a_variable_is_not_mistaken_for_a_secret() {
    let secret = [("GREETING".to_owned(), Binding::Secret("hello".to_owned()))].into();
    assert_ne!(Revision { bindings: secret, ..revision() }.digest(), revision().digest());
}
