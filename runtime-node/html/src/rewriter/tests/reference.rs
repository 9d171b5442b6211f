//! Changes of tokens. `lol_html` and the rewriter apply the same changes, and the tests compare the
//! results.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use lol_html::html_content::{ContentType, Element, EndTag};
use lol_html::{DocumentContentHandlers, ElementContentHandlers, HtmlRewriter, Settings};
use proptest::prelude::*;

use super::super::Step;
use crate::content::Form;
use crate::edit::Editing;
use crate::recorder::Handlers;
use crate::tape::ElementId;
use crate::token::Place;

/// A change of a token.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Inserts HTML if the flag is set; text otherwise.
    Insert(Place, &'static str, bool),
    /// Removes the token. For an element, the flag states whether its content is kept.
    Remove(bool),
    Rename(&'static str),
    Set(&'static str, &'static str),
    Unset(&'static str),
}

/// The actions of a handler on a token, and those of the handler of the end tag.
#[derive(Clone, Debug)]
pub(super) struct Actions {
    token: Vec<Action>,
    end: Option<Vec<Action>>,
}

impl Action {
    /// Returns a strategy for actions. If `at_end` is not set, none of the actions on the token
    /// itself affects the end tag of an element.
    pub(super) fn any(at_end: bool) -> impl Strategy<Value = Actions> {
        let places = if at_end {
            vec![
                Place::Before,
                Place::After,
                Place::Prepend,
                Place::Append,
                Place::Replace,
                Place::Inner,
            ]
        } else {
            vec![Place::Before, Place::Prepend]
        };
        let text = prop::sample::select(vec!["1", "<2>", "&3", ""]);
        let insert = (prop::sample::select(places), text, any::<bool>());
        let insert = insert.prop_map(|(place, text, html)| Self::Insert(place, text, html));
        let set =
            (prop::sample::select(vec!["a", "C", "new"]), prop::sample::select(vec!["", "\"'"]));
        let set = set.prop_map(|(name, value)| Self::Set(name, value));
        let unset = prop::sample::select(vec!["b", "e", "none"]).prop_map(Self::Unset);
        let remove = any::<bool>().prop_map(Self::Remove);
        let rename = prop::sample::select(vec!["h1", "Q"]).prop_map(Self::Rename);
        let action = if at_end {
            prop_oneof![5 => insert, 2 => set, 1 => unset, 1 => remove, 1 => rename].boxed()
        } else {
            prop_oneof![3 => insert, 2 => set, 1 => unset].boxed()
        };
        let end = (prop::sample::select(vec![Place::Before, Place::After]), any::<bool>());
        let end = end.prop_map(|(place, html)| Self::Insert(place, "<e>", html));
        let end = prop::option::of(prop::collection::vec(end, 0..3));
        (prop::collection::vec(action, 0..4), end).prop_map(|(token, end)| Actions { token, end })
    }
}

impl Actions {
    /// Applies the actions to the current token. Returns those for the end tag of the element.
    pub(super) fn apply(&self, step: Step, token: &mut Editing<'_>) -> Option<(ElementId, Self)> {
        let is_element = matches!(step, Step::Element(_));
        for action in &self.token {
            match action {
                Action::Insert(place, text, html) => {
                    let places = match step {
                        Step::Element(_) => &Place::ALL[..],
                        Step::EndTag(_) => &[Place::Before, Place::After],
                        Step::Comment(_) | Step::Text(_) => {
                            &[Place::Before, Place::After, Place::Replace]
                        }
                        Step::End(_) => &[Place::Append],
                        _ => &[],
                    };
                    if places.contains(place) {
                        token.insert(*place, text, if *html { Form::Html } else { Form::Text });
                    }
                }
                Action::Remove(keeps_content)
                    if !matches!(step, Step::Doctype(_) | Step::End(_)) =>
                {
                    token.remove(*keeps_content);
                }
                Action::Rename(name) if is_element => token.set_name(name).unwrap(),
                Action::Set(name, value) if is_element => token.set_attribute(name, value).unwrap(),
                Action::Unset(name) if is_element => token.remove_attribute(name),
                _ => {}
            }
        }
        let end = if is_element { self.end.clone()? } else { return None };
        let element = token.handle_end().ok()?;
        Some((element, Self { token: end, end: None }))
    }

    fn change(&self, element: &mut Element<'_, '_>) {
        for action in &self.token {
            match action {
                Action::Insert(place, text, html) => {
                    let insert = match place {
                        Place::Before => Element::before,
                        Place::After => Element::after,
                        Place::Prepend => Element::prepend,
                        Place::Append => Element::append,
                        Place::Replace => Element::replace,
                        Place::Inner => Element::set_inner_content,
                    };
                    insert(element, text, content_type(*html));
                }
                Action::Remove(true) => element.remove_and_keep_content(),
                Action::Remove(false) => element.remove(),
                Action::Rename(name) => element.set_tag_name(name).unwrap(),
                Action::Set(name, value) => element.set_attribute(name, value).unwrap(),
                Action::Unset(name) => element.remove_attribute(name),
            }
        }
        if let (Some(actions), Some(handlers)) = (self.end.clone(), element.end_tag_handlers()) {
            // The last handler replaces the others.
            handlers.clear();
            handlers.push(Box::new(move |tag: &mut EndTag<'_>| {
                for action in actions {
                    match action {
                        Action::Insert(Place::Before, text, html) => {
                            tag.before(text, content_type(html));
                        }
                        Action::Insert(Place::After, text, html) => {
                            tag.after(text, content_type(html));
                        }
                        _ => {}
                    }
                }
                Ok(())
            }));
        }
    }
}

fn content_type(html: bool) -> ContentType {
    if html { ContentType::Html } else { ContentType::Text }
}

/// Applies the actions to a token of `lol_html` that is not an element.
macro_rules! change {
    ($token:expr, $actions:expr) => {
        for action in &$actions.token {
            match action {
                Action::Insert(Place::Before, text, html) => {
                    $token.before(text, content_type(*html));
                }
                Action::Insert(Place::After, text, html) => {
                    $token.after(text, content_type(*html));
                }
                Action::Insert(Place::Replace, text, html) => {
                    $token.replace(text, content_type(*html));
                }
                Action::Remove(_) => $token.remove(),
                _ => {}
            }
        }
    };
}

/// Rewrites a document with `lol_html`. The handlers apply the actions in turn.
pub(super) fn rewrite(
    handlers: &[Handlers],
    pieces: &[&[u8]],
    actions: &[Actions],
) -> Result<Vec<u8>, String> {
    let count = Rc::new(RefCell::new(0));
    let next = move || {
        *count.borrow_mut() += 1;
        &actions[*count.borrow() % actions.len()]
    };
    let mut settings = Settings::new().with_strict(true);
    for one in handlers {
        let [next1, next2, next3, next4] = [next.clone(), next.clone(), next.clone(), next.clone()];
        let comments = move |comment: &mut lol_html::html_content::Comment<'_>| {
            change!(comment, next1());
            Ok(())
        };
        let text = move |text: &mut lol_html::html_content::TextChunk<'_>| {
            change!(text, next2());
            Ok(())
        };
        settings = match &one.selector {
            Some(selector) => settings.append_element_content_handler((
                Cow::Owned(selector.parse().unwrap()),
                ElementContentHandlers::default().comments(comments).text(text).element(
                    move |element: &mut Element<'_, '_>| {
                        next3().change(element);
                        Ok(())
                    },
                ),
            )),
            None => settings.append_document_content_handler(
                DocumentContentHandlers::default()
                    .comments(comments)
                    .text(text)
                    .doctype(move |_: &mut lol_html::html_content::Doctype<'_>| {
                        next3();
                        Ok(())
                    })
                    .end(move |end: &mut lol_html::html_content::DocumentEnd<'_>| {
                        for action in &next4().token {
                            if let Action::Insert(Place::Append, text, html) = action {
                                end.append(text, content_type(*html));
                            }
                        }
                        Ok(())
                    }),
            ),
        };
    }
    let mut out = Vec::new();
    let mut rewriter = HtmlRewriter::new(settings, |chunk: &[u8]| out.extend_from_slice(chunk));
    let result =
        pieces.iter().try_for_each(|piece| rewriter.write(piece)).and_then(|()| rewriter.end());
    result.map(|()| out).map_err(|error| error.to_string())
}
