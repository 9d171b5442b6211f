//! Tests of whole documents. The reference is `lol_html` itself, with handlers that change the
//! tokens while it parses.

use proptest::prelude::*;

use super::*;
use crate::content::Form;
use crate::tape::Doctype;
use crate::token::Place;

mod reference;

use reference::{Action, Actions};

/// Registers handlers of elements, comments and text for a selector.
fn on(selector: &str) -> Handlers {
    let selector = Some(selector.to_owned());
    Handlers { selector, element: true, comments: true, text: true, end: false }
}

fn on_document() -> Handlers {
    Handlers { selector: None, element: true, comments: true, text: true, end: true }
}

/// Rewrites a document that arrives in pieces. `handle` runs the handlers.
fn rewrite<'p>(
    handlers: &[Handlers],
    encoding: &str,
    pieces: impl IntoIterator<Item = &'p [u8]>,
    mut handle: impl FnMut(Step, &mut Editing<'_>),
) -> Result<Vec<u8>, String> {
    let mut rewriter = Rewriter::new(handlers, encoding).map_err(|error| error.to_string())?;
    let mut pieces = pieces.into_iter();
    let (mut input, mut out): (&[u8], _) = (&[], Vec::new());
    loop {
        match rewriter.next_step().map_err(|error| error.to_string())? {
            Step::Input if !input.is_empty() => {
                let length = rewriter.feed(input);
                input = &input[length..];
            }
            Step::Input => match pieces.next() {
                Some(piece) => input = piece,
                None => rewriter.end(),
            },
            Step::Output => out.extend(rewriter.take_output()),
            Step::Stream(number) => {
                rewriter.insert_bytes(format!("<{number}>").as_bytes()).unwrap();
                rewriter.end_stream().unwrap();
            }
            Step::Done => {
                out.extend(rewriter.take_output());
                return Ok(out);
            }
            step => handle(step, &mut rewriter.current().expect("a handler has a token")),
        }
    }
}

/// Rewrites a document in UTF-8, whole and in pieces of every length. `handle` must do the same
/// each time. Returns the result.
fn rewritten(
    handlers: &[Handlers],
    document: &str,
    handle: impl Fn(Step, &mut Editing<'_>),
) -> String {
    let whole = rewrite(handlers, "utf-8", [document.as_bytes()], &handle).unwrap();
    for length in 1..document.len() {
        let pieces = document.as_bytes().chunks(length);
        let again = rewrite(handlers, "utf-8", pieces, &handle).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&again),
            String::from_utf8_lossy(&whole),
            "in pieces of {length}"
        );
    }
    String::from_utf8(whole).unwrap()
}

#[test]
fn a_document_without_handlers_passes_unchanged() {
    let document = "<!doctype html><P class=a b='c'>é</p><br/><script>a<b</script><!-- x --></x>";
    for handlers in [&[][..], &[on("*")], &[on("q"), on_document()]] {
        assert_eq!(rewritten(handlers, document, |_, _| {}), document);
    }
}

#[test]
fn elements_are_found_by_their_selector() {
    let document = "<div id=a><p class='x y'>1</p></div><p>2</p>";
    for (selector, marked) in [
        ("p", "<div id=a><p class='x y' m=\"\">1</p></div><p m=\"\">2</p>"),
        ("div > p", "<div id=a><p class='x y' m=\"\">1</p></div><p>2</p>"),
        ("#a .y", "<div id=a><p class='x y' m=\"\">1</p></div><p>2</p>"),
        ("p:not([class])", "<div id=a><p class='x y'>1</p></div><p m=\"\">2</p>"),
    ] {
        let mark = |step, token: &mut Editing<'_>| {
            if let Step::Element(_) = step {
                token.set_attribute("m", "").unwrap();
            }
        };
        assert_eq!(rewritten(&[on(selector)], document, mark), marked, "{selector}");
    }
}

#[test]
fn an_element_without_an_end_tag_leaves_the_end_tag_of_the_outer_element() {
    let handle = |step, token: &mut Editing<'_>| {
        if let Step::Element(_) = step {
            token.insert(Place::Append, "[end]", Form::Text);
            token.insert(Place::After, "[after]", Form::Text);
            token.set_name("q").unwrap();
        }
    };
    let document = "<div><p>1</div>2";
    let result = "<div><q>1[end][after]</div>2";
    assert_eq!(rewritten(&[on("p")], document, handle), result);
    let remove = |step, token: &mut Editing<'_>| {
        if let Step::Element(_) = step {
            token.remove(false);
        }
    };
    assert_eq!(rewritten(&[on("p")], document, remove), "<div></div>2");
    let both = "<q><q>1[end][after][end]</q>[after]2";
    assert_eq!(rewritten(&[on("p, div")], document, handle), both);
    let outer = |step, token: &mut Editing<'_>| match step {
        Step::Element(0) => token.insert(Place::Inner, "new", Form::Text),
        Step::Element(_) => token.insert(Place::Append, "old", Form::Text),
        _ => {}
    };
    let result = "<div>new</div>2";
    assert_eq!(rewritten(&[on("div"), on("p")], document, outer), result);
}

#[test]
fn streams_are_inserted_in_their_place() {
    let handle = |step, token: &mut Editing<'_>| {
        if let Step::Element(_) = step {
            for (number, place) in
                [Place::Before, Place::Prepend, Place::Append, Place::After].into_iter().enumerate()
            {
                token.insert(place, "|", Form::Text);
                token.insert_stream(place, number as u32, Form::Html);
            }
            token.set_attribute("a", "b").unwrap();
        }
    };
    let document = "<p>x</p>y";
    let result = "|<0><p a=\"b\"><1>|x|<2></p><3>|y";
    assert_eq!(rewritten(&[on("p")], document, handle), result);
    let hidden = |step, token: &mut Editing<'_>| match step {
        Step::Element(0) => token.insert_stream(Place::Replace, 7, Form::Text),
        Step::Element(_) => token.insert_stream(Place::Append, 8, Form::Text),
        _ => {}
    };
    assert_eq!(rewritten(&[on("p"), on("b")], "<p><b>x</b></p>y", hidden), "&lt;7&gt;y");
}

#[test]
fn the_parts_of_a_document_type_are_known() {
    let declaration = "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" 'x'>";
    let handle = |step, token: &mut Editing<'_>| {
        if let Step::Doctype(_) = step {
            let Doctype { name, public_id, system_id } = token.doctype();
            assert_eq!(name.as_deref(), Some("html"));
            assert_eq!(public_id.as_deref(), Some("-//W3C//DTD HTML 4.01//EN"));
            assert_eq!(system_id.as_deref(), Some("x"));
        }
    };
    assert_eq!(rewritten(&[on_document()], declaration, handle), declaration);
}

#[test]
fn all_handlers_of_a_token_run_in_the_order_of_their_registration() {
    let handle = |step, token: &mut Editing<'_>| {
        let (Step::Element(number) | Step::Comment(number)) = step else { return };
        token.insert(Place::Before, &number.to_string(), Form::Text);
    };
    let handlers = [on_document(), on("a"), on("*"), on("b"), on("a")];
    assert_eq!(rewritten(&handlers, "<a><!----></a><b>", handle), "124<a>1240<!----></a>23<b>");
}

#[test]
fn names_and_texts_that_would_change_the_structure_are_refused() {
    let handle = |step, token: &mut Editing<'_>| match step {
        Step::Element(_) => {
            for name in ["", "1", "a b", "a>", "a/"] {
                assert!(token.set_name(name).is_err(), "{name}");
            }
            for name in ["", "a b", "a>", "a/", "a=b", "a\n"] {
                assert!(token.set_attribute(name, "").is_err(), "{name}");
            }
            token.set_attribute("q", "\"<>&").unwrap();
        }
        Step::Comment(_) => {
            for text in ["-->", "a--!>", ">", "->"] {
                assert!(token.set_text(text).is_err(), "{text}");
            }
            token.set_text("new").unwrap();
        }
        _ => {}
    };
    let result = "<a q=\"&quot;<>&\"><!--new--></a>";
    assert_eq!(rewritten(&[on("a")], "<a><!--old--></a>", handle), result);
}

#[test]
fn documents_in_other_encodings_are_read_and_written_in_them() {
    let handle = |step, token: &mut Editing<'_>| match step {
        Step::Element(_) => {
            assert_eq!(token.attribute("t").as_deref(), Some("Grüße"));
            token.set_attribute("u", "ö€ж").unwrap();
            token.insert(Place::Append, "ä&ж", Form::Text);
            assert!(token.set_name("ж").is_err());
        }
        Step::Text(_) if !token.text().is_empty() => assert_eq!(token.text(), "ü"),
        _ => {}
    };
    let document = b"<p t='Gr\xfc\xdfe'>\xfc</p>";
    let result = b"<p t='Gr\xfc\xdfe' u=\"\xf6\x80&#1078;\">\xfc\xe4&amp;&#1078;</p>";
    for pieces in [document.chunks(document.len()), document.chunks(1)] {
        let written = rewrite(&[on("p")], "latin1", pieces, handle).unwrap();
        assert_eq!(written.escape_ascii().to_string(), result.escape_ascii().to_string());
    }
    // In this encoding, the second byte of the name's last character equals an `A`.
    let name = |step, token: &mut Editing<'_>| {
        if let Step::Element(_) = step {
            assert_eq!(token.name(), "xア");
        }
    };
    let document = b"<X\x83\x41></X\x83\x41>";
    assert_eq!(rewrite(&[on("*")], "shift_jis", [&document[..]], name).unwrap(), document);
    let error = |encoding| rewrite(&[], encoding, [&b""[..]], |_, _| {}).unwrap_err();
    assert!(error("utf-16le").contains("UTF-16LE"));
    assert!(error("nonsense").contains("nonsense"));
}

#[test]
fn tokens_before_an_error_are_handled() {
    let seen = std::cell::Cell::new(0);
    let count = |step, _: &mut Editing<'_>| {
        if let Step::Element(_) = step {
            seen.set(seen.get() + 1);
        }
    };
    // A browser ignores one of these start tags, depending on the whole tree.
    let ambiguous: &[u8] = b"<a></a><select><xmp><script></script></select>";
    let error = rewrite(&[on("a")], "utf-8", [ambiguous], count).unwrap_err();
    assert!(error.contains("xmp"), "{error}");
    assert_eq!(seen.get(), 1);
    let long = format!("<a></a><a b='{}'>", "x".repeat(4 << 20));
    let error = rewrite(&[on("a")], "utf-8", [long.as_bytes()], count).unwrap_err();
    assert!(error.contains("too long"), "{error}");
    assert_eq!(seen.get(), 2);
}

#[test]
fn the_output_comes_in_parts_of_bounded_size() {
    let mut rewriter = Rewriter::new(&[on("a")], "utf-8").unwrap();
    let document = "<a>x</a>".repeat(100_000);
    let (mut input, mut written, mut longest) = (document.as_bytes(), 0, 0);
    loop {
        match rewriter.next_step().unwrap() {
            Step::Input if input.is_empty() => rewriter.end(),
            Step::Input => {
                let length = rewriter.feed(input);
                input = &input[length..];
                assert!(rewriter.memory() < 8 << 20, "{} bytes", rewriter.memory());
            }
            Step::Output => {
                let output = rewriter.take_output().len();
                (written, longest) = (written + output, longest.max(output));
            }
            Step::Done => break,
            _ => {}
        }
    }
    written += rewriter.take_output().len();
    assert_eq!(written, document.len());
    assert!(longest < FULL + 1024, "{longest} bytes");
}

/// Returns a strategy for documents. In a balanced document, every element that can have an end tag
/// has one, and there are no other end tags.
fn documents(is_balanced: bool) -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "text &amp; more",
        "é€𝄞",
        "<br>",
        "<img src=a alt='b'/>",
        "<!-- c -->",
        "<!---->",
        "<?pi?>",
        "<!doctype html>",
        "<script>a<b</script>",
        "<style>p{}</style>",
        "<textarea><p></textarea>",
        "<svg><circle r=1 /></svg>",
        " \n",
        "<INPUT VALUE=x>",
        "<p a b=1 c='2' d=\"3\" E = 4></p>",
    ]);
    let stray = prop::sample::select(vec![
        "<p>",
        "</p>",
        "</div>",
        "<b x=y>",
        "</b>",
        "<li>",
        "<",
        "</",
        "<!",
        "</script>",
        "<svg>",
        "]]>",
    ]);
    let leaf = if is_balanced { leaf.boxed() } else { prop_oneof![leaf, stray].boxed() };
    let tag = prop::sample::select(vec!["div", "p", "b", "span", "x-y", "DIV"]);
    leaf.prop_map(str::to_owned).prop_recursive(5, 40, 6, move |inner| {
        (tag.clone(), any::<bool>(), prop::collection::vec(inner, 0..6)).prop_map(
            |(tag, has_class, inner)| {
                let class = if has_class { " class=c" } else { "" };
                format!("<{tag}{class}>{}</{tag}>", inner.concat())
            },
        )
    })
}

fn compare(document: &str, length: usize, actions: &[Actions]) -> Result<(), TestCaseError> {
    let handlers = [on("p"), on_document(), on("*"), on(".c > b, div p")];
    let pieces: Vec<_> = document.as_bytes().chunks(length).collect();
    let expected = reference::rewrite(&handlers, &pieces, actions);
    let mut count = 0;
    let mut ends = FxHashMap::default();
    let actual = rewrite(&handlers, "utf-8", pieces.iter().copied(), |step, token| {
        let ended = match step {
            Step::EndTag(element) => ends.remove(&element),
            _ => None,
        };
        let actions = ended.unwrap_or_else(|| {
            count += 1;
            actions[count % actions.len()].clone()
        });
        if let Some((element, actions)) = actions.apply(step, token) {
            ends.insert(element, actions);
        }
    });
    let text = |result: Result<Vec<u8>, String>| result.map(|b| String::from_utf8(b).unwrap());
    prop_assert_eq!(text(actual), text(expected));
    Ok(())
}

proptest! {
    #[test]
    fn changed_documents_are_those_of_the_reference(
        document in documents(true),
        length in 1_usize..200,
        actions in prop::collection::vec(Action::any(true), 1..12),
    ) {
        compare(&document, length, &actions)?;
    }

    #[test]
    fn changed_documents_with_missing_tags_are_those_of_the_reference(
        document in documents(false),
        length in 1_usize..200,
        actions in prop::collection::vec(Action::any(false), 1..12),
    ) {
        compare(&document, length, &actions)?;
    }
}
