//! Writes the comments of JavaScript in ASCII, so that no isolate needs a copy of the code.
//!
//! A node passes ASCII text to V8 without a copy, and all isolates of the node share it. Any other
//! text is decoded at each start, into two bytes for each UTF-16 unit in the isolate's heap.
//! Bundlers such as esbuild escape other characters in strings and regular expressions, but keep
//! comments as their authors wrote them, so one dash in a comment of a library would cost every
//! isolate a copy of the code. Comments of TypeScript are not printed at all.

use std::ops::Range;

use bytes::Bytes;
use oxc_ast::ast::Comment;

/// Returns the positions, in bytes, of the comments that are not in ASCII.
pub(super) fn not_in_ascii(source: &str, comments: &[Comment]) -> Vec<Range<usize>> {
    let ranges =
        comments.iter().map(|comment| comment.span.start as usize..comment.span.end as usize);
    ranges
        .filter(|range| source.get(range.clone()).is_some_and(|comment| !comment.is_ascii()))
        .collect()
}

/// Replaces every UTF-16 unit that is not ASCII in comments with a question mark, so that lines and
/// columns remain the same. Returns the code unchanged if it has such units elsewhere, or if a
/// comment contains U+2028 or U+2029.
///
/// # Arguments
/// * `comments` - the positions of the comments that are not in ASCII, in ascending order. The code
///   may end before some of them.
pub(super) fn in_ascii(code: Bytes, comments: &[Range<usize>]) -> Bytes {
    if comments.is_empty() {
        return code;
    }
    let written = std::str::from_utf8(&code).ok().and_then(|text| replaced(text, comments));
    written.filter(|written| written.is_ascii()).map_or(code, Bytes::from)
}

/// Returns `None` if the positions are not those of parts of the text.
fn replaced(text: &str, comments: &[Range<usize>]) -> Option<String> {
    let mut written = String::with_capacity(text.len());
    let mut end = 0;
    for comment in comments.iter().take_while(|comment| comment.end <= text.len()) {
        written.push_str(text.get(end..comment.start)?);
        written.extend(text.get(comment.clone())?.chars().flat_map(in_place_of));
        end = comment.end;
    }
    written.push_str(text.get(end..)?);
    Some(written)
}

/// Returns the characters that take the place of a character in a comment. A line separator
/// remains, because it may end a statement.
fn in_place_of(character: char) -> impl Iterator<Item = char> {
    let (character, count) = match character {
        '\0'..='\x7f' | '\u{2028}' | '\u{2029}' => (character, 1),
        _ => ('?', character.len_utf16()),
    };
    std::iter::repeat_n(character, count)
}

#[cfg(test)]
mod tests {
    use oxc_allocator::Allocator;
    use oxc_parser::Parser;
    use oxc_span::SourceType;

    use super::*;

    /// Returns the code with its comments in ASCII.
    fn written(source: &str) -> String {
        let allocator = Allocator::default();
        let parsed = Parser::new(&allocator, source, SourceType::mjs()).parse();
        let comments = not_in_ascii(source, &parsed.program.comments);
        let code = in_ascii(Bytes::copy_from_slice(source.as_bytes()), &comments);
        String::from_utf8(code.to_vec()).unwrap()
    }

    #[test]
    fn each_unit_that_is_not_ascii_in_a_comment_becomes_a_question_mark() {
        assert_eq!(
            written("/*! © Ada — 👋\n é */ let a = '/* \\u00e9 */'; // é\nlet b = /[//]/; // ok"),
            "/*! ? Ada ? ??\n ? */ let a = '/* \\u00e9 */'; // ?\nlet b = /[//]/; // ok"
        );
    }

    #[test]
    fn code_that_is_not_ascii_outside_comments_is_unchanged() {
        for source in [
            "let a = 'é'; // é",
            "let a = `// é`; // é",
            "let a = /[/*]é*/; // é",
            "let é; // é",
            "#!/bin/é\n// é",
            "let a = 1 /* a line separator:\u{2028}é */ let b",
        ] {
            assert_eq!(written(source), source);
        }
    }

    #[test]
    fn positions_outside_the_code_are_ignored() {
        let code = Bytes::from("let a // é\n");
        assert_eq!(in_ascii(code.clone(), &[6..11, 12..17]), "let a // ?\n");
        for wrong in [[6..11, 2..5], [10..11, 12..17], [20..30, 40..50]] {
            assert_eq!(in_ascii(code.clone(), &wrong), code, "{wrong:?}");
        }
    }
}
