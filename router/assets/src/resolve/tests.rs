//! Tests the results for paths.

use super::*;
use crate::pack::tests::site;

const CLIENT: Audience = Audience::Client { navigates: false };
const BROWSER: Audience = Audience::Client { navigates: true };

fn pages() -> Site {
    site(&[
        ("index.html", ""),
        ("file.html", ""),
        ("folder/index.html", ""),
        ("folder/404.html", ""),
        ("404.html", ""),
        ("both.html", ""),
        ("both/index.html", ""),
        ("exact", ""),
        ("exact.html", ""),
        ("bin/index", ""),
        ("style.css", ""),
        ("ü %.txt", ""),
    ])
}

fn outcome(site: &Site, settings: &Settings, audience: Audience, path: &str) -> String {
    let (path, query) = path.split_once('?').map_or((path, None), |(p, q)| (p, Some(q)));
    match site.resolve(settings, audience, path, query) {
        Resolved::File { file, status } => format!("{status} {}", file.path),
        Resolved::Redirect { status, location } => format!("{status} -> {location}"),
        Resolved::Nothing => "nothing".to_owned(),
    }
}

#[test]
fn each_page_has_one_url() {
    let site = pages();
    // Each row is a path, and its outcomes in the order of `handlings`.
    for (path, expected) in [
        ("/", ["200 index.html", "200 index.html", "200 index.html", "nothing"]),
        ("/index.html", ["307 -> /", "307 -> /", "307 -> /", "200 index.html"]),
        ("/index", ["307 -> /", "307 -> /", "307 -> /", "nothing"]),
        ("/file", ["200 file.html", "307 -> /file/", "200 file.html", "nothing"]),
        ("/file/", ["307 -> /file", "200 file.html", "307 -> /file", "nothing"]),
        (
            "/file.html?a=b",
            ["307 -> /file?a=b", "307 -> /file/?a=b", "307 -> /file?a=b", "200 file.html"],
        ),
        ("/folder", ["307 -> /folder/", "307 -> /folder/", "200 folder/index.html", "nothing"]),
        (
            "/folder/",
            ["200 folder/index.html", "200 folder/index.html", "307 -> /folder", "nothing"],
        ),
        (
            "/folder/index.html",
            ["307 -> /folder/", "307 -> /folder/", "307 -> /folder", "200 folder/index.html"],
        ),
        ("/folder/index", ["307 -> /folder/", "307 -> /folder/", "307 -> /folder", "nothing"]),
        ("/both", ["200 both.html", "307 -> /both/", "200 both.html", "nothing"]),
        ("/exact", ["200 exact"; 4]),
        ("/exact.html", ["200 exact.html"; 4]),
        ("/bin/index", ["200 bin/index"; 4]),
        ("/style.css", ["200 style.css"; 4]),
        ("/style.css/", ["nothing"; 4]),
        ("/%C3%BC%20%25.txt", ["200 ü %.txt"; 4]),
        ("/%ff", ["nothing"; 4]),
        ("/missing", ["nothing"; 4]),
        ("//file", ["nothing"; 4]),
        ("//", ["nothing"; 4]),
    ] {
        let handlings = [
            HtmlHandling::AutoTrailingSlash,
            HtmlHandling::ForceTrailingSlash,
            HtmlHandling::DropTrailingSlash,
            HtmlHandling::None,
        ];
        for (html, expected) in handlings.into_iter().zip(expected) {
            let settings = Settings { html, ..Settings::default() };
            assert_eq!(outcome(&site, &settings, CLIENT, path), expected, "{path} {html:?}");
        }
    }
}

#[test]
fn a_page_and_a_folder_of_the_same_name_have_different_urls() {
    let site = pages();
    assert_eq!(outcome(&site, &Settings::default(), CLIENT, "/both/"), "200 both/index.html");
}

#[test]
fn a_missing_path_is_answered_as_the_worker_configures() {
    let site = pages();
    let with = |not_found, audience, path| {
        outcome(&site, &Settings { not_found, ..Settings::default() }, audience, path)
    };
    use NotFoundHandling as Missing;
    for (not_found, audience, path, expected) in [
        (Missing::None, Audience::Worker, "/x", "nothing"),
        (Missing::NotFoundPage, CLIENT, "/x", "nothing"),
        (Missing::NotFoundPage, Audience::Worker, "/x", "404 404.html"),
        (Missing::NotFoundPage, Audience::Worker, "/x/y", "404 404.html"),
        (Missing::NotFoundPage, Audience::Worker, "/folder/x", "404 folder/404.html"),
        (Missing::NotFoundPage, Audience::Worker, "/folder/x/y/", "404 folder/404.html"),
        (Missing::SinglePageApplication, CLIENT, "/x", "nothing"),
        (Missing::SinglePageApplication, BROWSER, "/x", "200 index.html"),
        (Missing::SinglePageApplication, Audience::Worker, "/x", "200 index.html"),
    ] {
        assert_eq!(with(not_found, audience, path), expected, "{not_found:?} {audience:?} {path}");
    }
}

#[test]
fn an_application_answers_every_path_that_the_worker_does_not_list() {
    let site = pages();
    let outcome = |not_found| {
        let worker_first = PathSet::parse(["/api/*"]).unwrap();
        let settings = Settings { not_found, worker_first, ..Settings::default() };
        outcome(&site, &settings, CLIENT, "/x")
    };
    assert_eq!(outcome(NotFoundHandling::SinglePageApplication), "200 index.html");
    assert_eq!(outcome(NotFoundHandling::NotFoundPage), "nothing");
}

#[test]
fn the_sites_own_redirects_precede_its_files() {
    let site = site(&[
        ("_redirects", "/a /b 301\n/app/* /shell 200\n/file.html /else\n/ü /ok"),
        ("file.html", ""),
        ("shell.html", ""),
    ]);
    let of = |path| outcome(&site, &Settings::default(), CLIENT, path);
    assert_eq!(of("/a"), "301 -> /b");
    assert_eq!(of("/app/x"), "200 shell.html");
    assert_eq!(of("/file.html"), "302 -> /else");
    assert_eq!(of("/%C3%BC"), "302 -> /ok");
}

#[test]
fn the_worker_runs_first_for_the_paths_that_it_names() {
    let set = PathSet::parse(["/api/*", "!/api/docs/*", "/x"]).unwrap();
    for (path, contained) in
        [("/api/1", true), ("/api/docs/1", false), ("/x", true), ("/x/y", false), ("/", false)]
    {
        assert_eq!(set.contains(path), contained, "{path}");
    }
    let settings = Settings { worker_first: set, ..Settings::default() };
    assert!(settings.is_worker_first("/%61pi/1") && !settings.is_worker_first("/b"));
    assert!(!Settings::default().is_worker_first("/"));
    assert!(PathSet::parse(["api"]).is_err());
}

proptest::proptest! {
    #[test]
    fn a_redirect_to_the_url_of_a_page_leads_to_a_file(
        path in "/(index|file|folder|both|exact|bin)?(/index|/)?(.html)?/?",
    ) {
        let site = pages();
        for html in [
            HtmlHandling::AutoTrailingSlash,
            HtmlHandling::ForceTrailingSlash,
            HtmlHandling::DropTrailingSlash,
        ] {
            let settings = Settings { html, ..Settings::default() };
            let resolved = site.resolve(&settings, CLIENT, &path, None);
            if let Resolved::Redirect { location, .. } = resolved {
                proptest::prop_assert!(location.starts_with('/') && !location.starts_with("//"));
                let next = site.resolve(&settings, CLIENT, &location, None);
                proptest::prop_assert!(
                    matches!(next, Resolved::File { .. }),
                    "{path} {html:?} {location}"
                );
            }
        }
    }
}
