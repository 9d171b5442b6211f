//! Tests redirects, each of which takes the whole path of a request again.

use super::origin::{Origin, redirect, text};
use super::*;
use crate::error::Stage;

#[tokio::test]
async fn redirects_are_followed_to_their_end() {
    on_a_shard(async {
        let origin = Origin::plain(|request| match request.uri().path() {
            "/1" => redirect(302, "/2?q"),
            "/2" => redirect(308, "3"),
            _ => text("there"),
        })
        .await;
        let response = fetch(&client(), get(origin.url("/1"))).await.unwrap();
        assert_eq!((response.url.path(), response.redirected), ("/3", true));
        assert_eq!(body(response).await.unwrap(), "there");
    })
    .await;
}

#[tokio::test]
async fn a_redirected_request_repeats_the_body_or_becomes_a_get() {
    on_a_shard(async {
        let origin = Origin::plain(|request| match request.uri().path() {
            "/303" => redirect(303, "/end"),
            "/307" => redirect(307, "/end"),
            _ => text(&format!(
                "{} {:?} {:?}",
                request.method(),
                request.body(),
                request.headers().get("content-type")
            )),
        })
        .await;
        let client = client();
        let request = |path| {
            with(post(origin.url(path), RequestBody::Full("b".into())), &[("content-type", "x/y")])
        };
        assert_eq!(fetch_text(&client, request("/303")).await, "GET b\"\" None");
        assert_eq!(fetch_text(&client, request("/307")).await, "POST b\"b\" Some(\"x/y\")");
        let stream = futures::stream::iter([Ok("s".into())]).boxed_local();
        let request = post(
            origin.url("/307"),
            RequestBody::Stream { bytes: stream, length: None, trailers: None },
        );
        assert_eq!(failure(&client, request).await.stage(), Stage::Redirect);
    })
    .await;
}

#[tokio::test]
async fn credentials_are_not_sent_to_the_other_origin_of_a_redirect() {
    on_a_shard(async {
        let other =
            Origin::plain(|request| text(&format!("{:?}", request.headers().get("authorization"))))
                .await;
        let target = other.url("/").to_string();
        let origin = Origin::plain(move |request| match request.uri().path() {
            "/away" => redirect(302, &target),
            "/near" => redirect(302, "/end"),
            _ => text(&format!("{:?}", request.headers().get("authorization"))),
        })
        .await;
        let client = client();
        let request =
            |path| with(get(origin.url(path)), &[("authorization", "Bearer x"), ("cookie", "a=1")]);
        assert_eq!(fetch_text(&client, request("/away")).await, "None");
        assert_eq!(other.requests.borrow()[0].headers().get("cookie"), None);
        assert_eq!(fetch_text(&client, request("/near")).await, "Some(\"Bearer x\")");
    })
    .await;
}

#[tokio::test]
async fn the_mode_decides_whether_a_redirect_is_returned_or_is_an_error() {
    on_a_shard(async {
        let origin = Origin::plain(|_| redirect(302, "/next")).await;
        let client = client();
        let manual = Request { redirect: RedirectMode::Manual, ..get(origin.url("/")) };
        let response = fetch(&client, manual).await.unwrap();
        assert_eq!(
            (response.status.as_u16(), &response.headers["location"]),
            (302, &HeaderValue::from_static("/next"))
        );
        let error =
            failure(&client, Request { redirect: RedirectMode::Error, ..get(origin.url("/")) })
                .await;
        assert_eq!(error.stage(), Stage::Redirect);
    })
    .await;
}

#[tokio::test]
async fn a_redirect_loop_ends() {
    on_a_shard(async {
        let origin = Origin::plain(|_| redirect(302, "/")).await;
        let error = failure(&client(), get(origin.url("/"))).await;
        assert_eq!(error.stage(), Stage::Redirect);
        assert_eq!(origin.requests.borrow().len(), 21);
    })
    .await;
}

#[tokio::test]
async fn a_redirect_reaches_only_what_a_request_may_reach() {
    on_a_shard(async {
        for (target, stage) in [
            ("http://10.0.0.1/", Stage::Policy),
            ("http://169.254.169.254/latest/meta-data/", Stage::Policy),
            ("http://[::ffff:10.0.0.1]/", Stage::Policy),
            ("http://[::1]/", Stage::Policy),
            ("http://127.0.0.1:25/", Stage::Policy),
            ("file:///etc/passwd", Stage::Redirect),
        ] {
            let origin = Origin::plain(move |_| redirect(302, target)).await;
            assert_eq!(failure(&client(), get(origin.url("/"))).await.stage(), stage, "{target}");
        }
        // A redirect to a host that the Worker's own list does not name is refused, too.
        let origin = Origin::plain(|_| redirect(302, "http://other.test/")).await;
        let context = EgressContext {
            egress: Rc::new(Egress::Only(vec!["origin.test".parse().unwrap()])),
            ..context("shop")
        };
        let url = Url::parse(&format!("http://origin.test:{}/", origin.port)).unwrap();
        let error = client().fetch(&context, get(url)).await.err().unwrap();
        assert!(
            matches!(&error, EgressError::NotListed { host, port: 80 } if host == "other.test"),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn each_redirect_counts_as_a_request() {
    on_a_shard(async {
        let origin =
            Origin::plain(
                |request| if request.uri().path() == "/" { redirect(302, "/x") } else { text("") },
            )
            .await;
        let (client, context) = (client(), context("shop"));
        for _ in 0..50 {
            client.fetch(&context, get(origin.url("/"))).await.unwrap();
        }
        let error = client.fetch(&context, get(origin.url("/x"))).await.err().unwrap();
        assert_eq!(error.stage(), Stage::Limit);
    })
    .await;
}
