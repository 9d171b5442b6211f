//! Tests of the loop of the work queue.

use super::*;

/// The tenant of a key is the part before the slash.
impl Tenanted for &str {
    fn tenant(&self) -> &str {
        self.split('/').next().unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn every_key_is_worked_on_when_this_replica_begins_to_lead_and_none_before() {
    let registry = Registry::new();
    let metrics = QueueFamilies::register(&registry).unwrap().of("Worker");
    let (touched_tx, touched_rx) = mpsc::unbounded_channel();
    let (leading_tx, leading_rx) = watch::channel(false);
    let (done_tx, mut done_rx) = mpsc::unbounded_channel();
    let work = move |key: &'static str| {
        let _ = done_tx.send(key);
        std::future::ready(Ok::<_, String>(None))
    };
    let all = || vec!["a/1", "b/1"];
    let running = tokio::spawn(run(
        touched_rx,
        leading_rx,
        all,
        work,
        Order::NewestFirst,
        |_| Author::default(),
        metrics.clone(),
    ));
    touched_tx.send("a/1").unwrap();
    touched_tx.send("a/2").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((metrics.waiting.get(), done_rx.try_recv().ok()), (0, None));
    // A touch at the same moment does not hide the change of the leadership.
    touched_tx.send("b/1").unwrap();
    leading_tx.send_replace(true);
    touched_tx.send("a/1").unwrap();
    let mut done = [done_rx.recv().await.unwrap(), done_rx.recv().await.unwrap()];
    done.sort_unstable();
    assert_eq!(done, ["a/1", "b/1"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn finished_work_is_repeated_after_the_delay_that_it_names() {
    let registry = Registry::new();
    let metrics = QueueFamilies::register(&registry).unwrap().of("Worker");
    let (touched_tx, touched_rx) = mpsc::unbounded_channel();
    let (_leading_tx, leading_rx) = watch::channel(true);
    let (done_tx, mut done_rx) = mpsc::unbounded_channel();
    let mut delays =
        [Some(Duration::from_secs(30)), Some(Duration::from_secs(5)), None].into_iter();
    let delays = std::sync::Mutex::new(move || delays.next().flatten());
    let work = move |key: &'static str| {
        let _ = done_tx.send(key);
        std::future::ready(Ok::<_, String>((delays.lock().unwrap())()))
    };
    let running = tokio::spawn(run(
        touched_rx,
        leading_rx,
        Vec::new,
        work,
        Order::OldestFirst,
        |_| Author::default(),
        metrics.clone(),
    ));
    let began = tokio::time::Instant::now();
    touched_tx.send("a").unwrap();
    done_rx.recv().await.unwrap();
    // A touch before the delay has passed replaces the timer of the repetition.
    touched_tx.send("a").unwrap();
    done_rx.recv().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    done_rx.recv().await.unwrap();
    assert!((5..30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(metrics.retrying.get(), 0, "a repetition counts as a retry");
    let again = tokio::time::timeout(Duration::from_secs(3600), done_rx.recv()).await;
    assert!(again.is_err(), "work that names no delay is repeated");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_again_before_its_retry_has_one_timer() {
    let mut retries = Timers::default();
    retries.set(&"a", Some(FIRST_RETRY));
    retries.set(&"a", Some(FIRST_RETRY * 2));
    let began = tokio::time::Instant::now();
    assert_eq!(retries.next().await, Some("a"));
    assert!(began.elapsed() >= FIRST_RETRY * 2);
    assert_eq!(retries.next().await, None);
    retries.set(&"a", Some(FIRST_RETRY));
    retries.set(&"a", None);
    assert_eq!(retries.next().await, None);
}
