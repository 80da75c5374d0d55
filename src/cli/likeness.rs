//! Which names were probably meant by one that does not exist.
//!
//! Owns the comparison and the words. Decides nothing by it: a name is only ever suggested.

/// Names that are suggested.
const MAX_NAMED: usize = 3;
/// Names that are listed where none is like it.
const MAX_LISTED: usize = 40;

/// "did you mean …", or what there is; never empty.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = known.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    let mut near: Vec<(usize, &str)> = names
        .iter()
        .map(|name| (distance(word, name), *name))
        .filter(|(distance, name)| {
            *distance <= 1 + name.len() / 4 || (word.len() > 2 && name.contains(word))
        })
        .collect();
    near.sort_unstable();
    near.truncate(MAX_NAMED);
    if !near.is_empty() {
        let near: Vec<&str> = near.into_iter().map(|(_, name)| name).collect();
        return format!("did you mean {}?", near.join(" or "));
    }
    if names.is_empty() {
        return "there is none".to_owned();
    }
    let more = names.len().saturating_sub(MAX_LISTED);
    names.truncate(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("there are: {}{more}", names.join(", "))
}

/// How many letters must be put in, taken out, changed or swapped with their neighbour to make the one of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // The rows for the last two letters of `one`, and for this one.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, c) in one.iter().enumerate() {
        let mut now = vec![row + 1];
        for (column, d) in other.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
            let mut best = at(&last, column) + usize::from(c != d);
            best = best.min(at(&last, column + 1) + 1).min(at(&now, column) + 1);
            let swapped = row > 0
                && column > 0
                && one.get(row - 1) == Some(d)
                && other.get(column - 1) == Some(c);
            if swapped {
                best = best.min(at(&before, column - 1) + 1);
            }
            now.push(best);
        }
        before = std::mem::replace(&mut last, now);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted() {
        for (one, other, letters) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "abd", 1),
            ("abc", "acb", 1),
            ("notes_ad", "notes_add", 1),
            ("ab", "ba", 1),
            ("abcd", "badc", 2),
            ("ä", "a", 1),
        ] {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
    }

    #[test]
    fn what_is_like_it_is_suggested_and_else_all_is_listed() {
        let known = ["notes_add", "notes_list", "files_edit", "notes_add"];
        assert_eq!(suggestion("notes_ad", known), "did you mean notes_add?");
        assert_eq!(suggestion("note_add", known), "did you mean notes_add?");
        assert_eq!(suggestion("edit", known), "did you mean files_edit?");
        assert_eq!(suggestion("zzz", known), "there are: files_edit, notes_add, notes_list");
        assert_eq!(suggestion("x", []), "there is none");
        let many: Vec<String> = (0..=MAX_LISTED).map(|n| format!("aaaaaaaa{n}")).collect();
        let listed = suggestion("zzz", many.iter().map(String::as_str));
        assert!(listed.ends_with(" and 1 more"), "{listed}");
        assert_eq!(
            suggestion("aaaaaaaa", many.iter().map(String::as_str)).matches(" or ").count(),
            2
        );
    }
}
