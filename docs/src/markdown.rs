//! Reads the parts of a Markdown page that can be checked: anchors, links and snippets. This module
//! is pure.

use std::collections::BTreeMap;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The parts of a page, in the order of the page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The text of the first heading.
    pub title: String,
    /// The text of the first paragraph.
    pub summary: String,
    /// The anchors of the headings, as mdBook and GitHub derive them.
    pub anchors: Vec<String>,
    pub links: Vec<Link>,
    pub snippets: Vec<Snippet>,
}

/// A link, or an image.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    pub destination: String,
    /// The position of the whole link in the page, in bytes.
    pub range: Range<usize>,
}

/// A fenced block of code.
#[derive(Debug, PartialEq, Eq)]
pub struct Snippet {
    /// The language, such as `yaml`.
    pub language: String,
    /// The words that follow the language after commas, such as `worker` in `js,worker`.
    pub words: Vec<String>,
    pub text: String,
    /// The number of the line with the fence, from 1.
    pub line: usize,
}

impl Snippet {
    /// Returns whether the word follows the language.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|own| own == word)
    }
}

/// The part of a page whose text is being read.
enum Reading {
    Nothing,
    Heading(String),
    Paragraph(String),
    Snippet(Snippet),
}

/// Reads a page.
pub fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut reading = Reading::Nothing;
    let mut anchors = BTreeMap::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => reading = Reading::Heading(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                if let Reading::Heading(heading) = std::mem::replace(&mut reading, Reading::Nothing)
                {
                    page.anchors.push(unique(&mut anchors, anchor(&heading)));
                    if page.title.is_empty() {
                        page.title = heading;
                    }
                }
            }
            Event::Start(Tag::Paragraph) if page.summary.is_empty() => {
                reading = Reading::Paragraph(String::new());
            }
            Event::End(TagEnd::Paragraph) => {
                if let Reading::Paragraph(paragraph) =
                    std::mem::replace(&mut reading, Reading::Nothing)
                {
                    page.summary = paragraph;
                }
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                let line = 1 + text[..range.start].matches('\n').count();
                reading = Reading::Snippet(snippet(&info, line));
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Reading::Snippet(snippet) = std::mem::replace(&mut reading, Reading::Nothing)
                {
                    page.snippets.push(snippet);
                }
            }
            Event::Start(
                Tag::Link { dest_url: destination, .. } | Tag::Image { dest_url: destination, .. },
            ) => page.links.push(Link { destination: destination.into_string(), range }),
            Event::Text(text) | Event::Code(text) => match &mut reading {
                Reading::Heading(so_far) | Reading::Paragraph(so_far) => so_far.push_str(&text),
                Reading::Snippet(snippet) => snippet.text.push_str(&text),
                Reading::Nothing => {}
            },
            Event::SoftBreak => {
                if let Reading::Paragraph(paragraph) = &mut reading {
                    paragraph.push(' ');
                }
            }
            _ => {}
        }
    }
    page
}

/// Returns the page, in which each destination of a link is replaced by what `replace` returns for
/// it, or kept if that is `None`.
pub fn with_destinations(text: &str, replace: impl Fn(&str) -> Option<String>) -> String {
    let mut replaced = text.to_owned();
    // The last links come first, so that the positions of the others remain valid. A link within
    // the text of a link ends before the destination of the outer one.
    let mut links = read(text).links;
    links.sort_by_key(|link| link.range.end);
    for link in links.iter().rev() {
        let whole = &text[link.range.clone()];
        let (Some(new), Some(at)) = (replace(&link.destination), whole.rfind(&link.destination))
        else {
            continue;
        };
        let start = link.range.start + at;
        replaced.replace_range(start..start + link.destination.len(), &new);
    }
    replaced
}

fn snippet(info: &str, line: usize) -> Snippet {
    let mut words = info.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned);
    let language = words.next().unwrap_or_default();
    Snippet { language, words: words.collect(), text: String::new(), line }
}

/// Returns the anchor of a heading: lower case, with hyphens for spaces and without punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' | '_' => Some(character),
        _ => character.is_alphanumeric().then_some(character),
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// Numbers the anchors of equal headings.
fn unique(seen: &mut BTreeMap<String, usize>, anchor: String) -> String {
    let count = seen.entry(anchor.clone()).or_default();
    *count += 1;
    if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# The `tenon` line\n\nReads *two*\nlines.\n\n## Use it\n\n\
                        [a](b.md#c) and ![d](e.svg)\n\n```js,worker\nf();\n```\n\n## Use it\n";

    #[test]
    fn a_page_has_a_title_a_summary_and_an_anchor_for_each_heading() {
        let page = read(PAGE);
        assert_eq!(page.title, "The tenon line");
        assert_eq!(page.summary, "Reads two lines.");
        assert_eq!(page.anchors, ["the-tenon-line", "use-it", "use-it-1"]);
    }

    #[test]
    fn a_snippet_has_the_language_the_words_and_the_line_of_its_fence() {
        let page = read(PAGE);
        let [snippet] = page.snippets.as_slice() else { panic!("{:?}", page.snippets) };
        assert_eq!((snippet.language.as_str(), snippet.text.as_str()), ("js", "f();\n"));
        assert!(snippet.has("worker") && !snippet.has("js"));
        assert_eq!(snippet.line, 10);
    }

    #[test]
    fn only_destinations_are_replaced() {
        let page = "[b.md](b.md) [![b.md](i.svg)](b.md), and `[b.md](b.md)`\n";
        let replaced = with_destinations(page, |to| (to == "b.md").then(|| "other".to_owned()));
        assert_eq!(replaced, "[b.md](other) [![b.md](i.svg)](other), and `[b.md](b.md)`\n");
    }
}
