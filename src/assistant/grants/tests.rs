//! What counts at which instant, and what a broken file grants.

use super::state::{Entry, MAX_TOOLS};
use super::*;
use crate::assistant::{PeerId, SessionId};

const NOW: u64 = 1_800_000_000_000;
const KEY: &str = "key:ana";

fn category(category: PermissionCategory, granted: bool, until: Option<u64>) -> Wish {
    Wish::Category { category, granted, until }
}

fn tool(tool: &str, mode: Option<ToolMode>) -> Wish {
    Wish::Tool { tool: tool.to_owned(), mode, until: None }
}

fn peer(assurance: Assurance, granted: &[PermissionCategory]) -> CallerScope {
    CallerScope::Mesh {
        peer_id: PeerId(KEY.to_owned()),
        name: "Ana".to_owned(),
        assurance,
        granted: granted.iter().copied().collect(),
    }
}

fn operator(granted: CategorySet) -> CallerScope {
    CallerScope::LocalOperator { session_id: SessionId("s".to_owned()), granted }
}

fn ana(confirmed: bool) -> Standing {
    Standing {
        caller: PeerId(KEY.to_owned()),
        name: "Ana".to_owned(),
        base: CategorySet::from([PermissionCategory::System]),
        configured: false,
        confirmed,
    }
}

fn open(folder: &tempfile::TempDir) -> Grants {
    Grants::open(folder.path()).unwrap()
}

fn with_ana(folder: &tempfile::TempDir) -> Grants {
    let grants = open(folder);
    grants.set_contacts(vec![ana(true)]);
    grants
}

#[test]
fn what_was_set_wins_for_whom_it_names_and_touches_nobody_else() {
    use PermissionCategory::{Network, System};
    let folder = tempfile::tempdir().unwrap();
    let grants = with_ana(&folder);
    let verified = peer(Assurance::Verified, &[System]);
    assert_eq!(grants.authority(&verified).categories, CategorySet::from([System]));
    assert_eq!(grants.source(KEY), "default");
    grants.set(KEY, category(Network, true, None), "page").unwrap();
    assert_eq!(grants.source(KEY), "grants.json");
    // It began with what she had.
    let both = CategorySet::from([System, Network]);
    assert_eq!(grants.authority(&verified).categories, both);
    assert_eq!(grants.current(verified.clone()).granted_categories(), both);
    grants.set(KEY, category(System, false, None), "page").unwrap();
    assert_eq!(grants.authority(&verified).categories, CategorySet::from([Network]));
    // The operator keeps the default, and other keys have nothing.
    let base = operator(operator_base());
    assert_eq!(grants.authority(&base).categories, operator_base());
    grants.set(OPERATOR, category(System, false, None), "page").unwrap();
    assert!(grants.authority(&base).categories.is_empty());
    // All of it is there after a restart.
    let again = with_ana(&folder);
    assert_eq!(again.authority(&verified).categories, CategorySet::from([Network]));
    assert!(again.authority(&base).categories.is_empty());
    assert_eq!(again.list(), grants.list());
    assert!(store::is_private(&folder.path().join(FILE)).unwrap());
}

#[test]
fn whoever_is_not_verified_or_not_a_confirmed_contact_has_nothing_whatever_was_set() {
    let folder = tempfile::tempdir().unwrap();
    let grants = with_ana(&folder);
    for wanted in PermissionCategory::ALL {
        grants.set(KEY, category(wanted, true, None), "page").unwrap();
    }
    grants.set(KEY, tool("x", Some(ToolMode::Always)), "page").unwrap();
    assert_eq!(
        grants.authority(&peer(Assurance::Verified, &[PermissionCategory::Apps])).categories.len(),
        10
    );
    for assurance in [Assurance::Signed, Assurance::Unverified] {
        let scope = peer(assurance, &PermissionCategory::ALL);
        assert_eq!(grants.authority(&scope), Authority::default());
    }
    // A turn that was built without tools stays without.
    assert_eq!(grants.authority(&peer(Assurance::Verified, &[])), Authority::default());
    assert!(grants.usable(peer(Assurance::Verified, &[])).granted_categories().is_empty());
    // A session without authority does not get the operator's.
    grants.set(OPERATOR, category(PermissionCategory::Wallet, true, None), "page").unwrap();
    assert_eq!(grants.authority(&operator(CategorySet::new())), Authority::default());
    // The key is not confirmed any more, or she is no contact any more.
    for contacts in [vec![ana(false)], vec![]] {
        grants.set_contacts(contacts);
        let scope = peer(Assurance::Verified, &PermissionCategory::ALL);
        assert_eq!(grants.authority(&scope), Authority::default());
        let row = grants.list().into_iter().find(|row| row.caller == KEY).unwrap();
        assert!(!row.in_force);
    }
}

#[test]
fn a_limit_in_time_counts_to_the_millisecond() {
    let entry = Entry {
        name: String::new(),
        categories: vec![CategoryGrant { category: PermissionCategory::Notes, until: Some(NOW) }],
        tools: vec![ToolGrant { tool: "x".to_owned(), mode: ToolMode::Never, until: Some(NOW) }],
    };
    let before = entry.authority(NOW - 1);
    assert!(before.categories.contains(&PermissionCategory::Notes));
    assert_eq!(before.mode("x"), Some(ToolMode::Never));
    assert_eq!(entry.authority(NOW), Authority::default());
    // And what would never be in force is refused.
    for (until, right) in [
        (None, true),
        (Some(NOW + 1), true),
        (Some(NOW), false),
        (Some(NOW + LONGEST_MS), true),
        (Some(NOW + LONGEST_MS + 1), false),
        (Some(u64::MAX), false),
    ] {
        let wish = category(PermissionCategory::Apps, true, until);
        assert_eq!(Entry::default().take(&wish, NOW).is_ok(), right, "{until:?}");
        let wish = Wish::Tool { tool: "x".to_owned(), mode: Some(ToolMode::Ask), until };
        assert_eq!(Entry::default().take(&wish, NOW).is_ok(), right, "{until:?}");
    }
}

#[test]
fn a_mode_never_gives_what_the_category_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let grants = with_ana(&folder);
    for mode in [ToolMode::Always, ToolMode::Ask, ToolMode::Never] {
        grants.set(KEY, tool("pay", Some(mode)), "page").unwrap();
        let authority = grants.authority(&peer(Assurance::Verified, &[PermissionCategory::Apps]));
        assert_eq!(authority.mode("pay"), Some(mode));
        assert!(!authority.permits("pay", PermissionCategory::Wallet));
        assert_eq!(authority.permits("pay", PermissionCategory::System), mode != ToolMode::Never);
    }
    grants.set(KEY, tool("pay", None), "page").unwrap();
    assert_eq!(
        grants.authority(&peer(Assurance::Verified, &[PermissionCategory::Apps])).mode("pay"),
        None
    );
}

#[test]
fn a_broken_file_grants_nothing_at_this_start_and_the_next_and_can_be_set_anew() {
    for broken in ["{", "[]", r#"{"version":0,"callers":{},"history":[]}"#, "", "null"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, broken).unwrap();
        for _start in 0..2 {
            let grants = with_ana(&folder);
            assert!(grants.warning().unwrap().contains("grants.json"), "{broken}");
            assert_eq!(grants.authority(&operator(operator_base())), Authority::default());
            let scope = peer(Assurance::Verified, &[PermissionCategory::System]);
            assert_eq!(grants.authority(&scope), Authority::default());
        }
        let aside = folder.path().join("grants.json.broken");
        assert_eq!(std::fs::read_to_string(aside).unwrap(), broken, "a copy is kept");
        // It begins with nothing, and only for whom it is set.
        let grants = with_ana(&folder);
        grants.set(OPERATOR, category(PermissionCategory::Notes, true, None), "page").unwrap();
        let notes = CategorySet::from([PermissionCategory::Notes]);
        assert_eq!(grants.authority(&operator(operator_base())).categories, notes);
        let scope = peer(Assurance::Verified, &[PermissionCategory::System]);
        assert_eq!(with_ana(&folder).authority(&scope), Authority::default());
    }
}

#[test]
fn a_change_that_makes_no_sense_says_what_would_be_right_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let grants = open(&folder);
    grants.set_contacts(vec![ana(false)]);
    let wish = || category(PermissionCategory::Notes, true, None);
    let error = grants.set("key:nobody\n", wish(), "page").unwrap_err().to_string();
    assert_eq!(error, "there is no caller `key:nobody`; there are: operator, key:ana");
    let error = grants.set(KEY, wish(), "page").unwrap_err().to_string();
    assert!(error.contains("granted to Ana now: its key is not confirmed"), "{error}");
    let past = category(PermissionCategory::Notes, true, Some(1));
    assert!(matches!(grants.set(OPERATOR, past, "page"), Err(GrantError::Past)));
    assert!(!folder.path().join(FILE).exists());
    assert_eq!(grants.list()[0].source, "default");
}

#[test]
fn every_change_is_recorded_with_the_change_itself() {
    let folder = tempfile::tempdir().unwrap();
    let grants = with_ana(&folder);
    grants.set(KEY, category(PermissionCategory::Notes, true, None), "page").unwrap();
    grants.set(KEY, tool("notes_add", Some(ToolMode::Never)), "command line").unwrap();
    grants.set(OPERATOR, tool("x", None), "page").unwrap();
    let history = with_ana(&folder).list()[1].history.clone();
    assert_eq!(history.len(), 2);
    assert_eq!((history[0].by.as_str(), history[1].by.as_str()), ("page", "command line"));
    assert_eq!(history[1].wish, tool("notes_add", Some(ToolMode::Never)));
    assert!(history[0].at >= 1_700_000_000_000 && history[0].at <= history[1].at);
    let row = serde_json::to_value(&history[0]).unwrap();
    assert_eq!((&row["category"], &row["granted"]), (&"notes".into(), &true.into()));
}

#[test]
fn the_history_and_the_tools_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let grants = with_ana(&folder);
    {
        let mut state = grants.state.write().unwrap();
        let change = Change { at: 1, caller: "old".into(), by: "x".into(), wish: tool("y", None) };
        state.history = std::iter::repeat_n(change, MAX_HISTORY).collect();
        let row = |n: usize| ToolGrant { tool: format!("t{n}"), mode: ToolMode::Ask, until: None };
        let tools = (0..MAX_TOOLS - 1).map(row).collect();
        state.entries.insert(KEY.to_owned(), Entry { tools, ..Entry::default() });
    }
    grants.set(KEY, tool("the_last", Some(ToolMode::Ask)), "page").unwrap();
    assert_eq!(grants.read().history.len(), MAX_HISTORY);
    assert_eq!(grants.read().history.back().unwrap().caller, KEY);
    let one_more = grants.set(KEY, tool("one_more", Some(ToolMode::Ask)), "page");
    assert!(matches!(one_more, Err(GrantError::TooMany { what: "tools" })));
    grants.set(KEY, tool("the_last", Some(ToolMode::Never)), "page").unwrap();
}

proptest::proptest! {
    #[test]
    fn any_sequence_of_changes_comes_back_from_the_disk_as_it_was(
        steps in proptest::collection::vec((0usize..10, proptest::prelude::any::<bool>(), 0u8..4), 1..12),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let grants = with_ana(&folder);
        let mut expected = CategorySet::from([PermissionCategory::System]);
        for (index, granted, mode) in steps {
            let wanted = PermissionCategory::ALL[index];
            grants.set(KEY, category(wanted, granted, None), "page").unwrap();
            if granted { expected.insert(wanted); } else { expected.remove(&wanted); }
            let mode = [None, Some(ToolMode::Always), Some(ToolMode::Ask), Some(ToolMode::Never)]
                [usize::from(mode)];
            grants.set(KEY, tool("t", mode), "page").unwrap();
            let scope = grants.current(peer(Assurance::Verified, &[]));
            assert_eq!(scope.granted_categories(), expected);
            let scope = peer(Assurance::Verified, &[PermissionCategory::Apps]);
            let authority = grants.authority(&scope);
            assert_eq!(authority.categories, expected);
            assert_eq!(authority.mode("t"), mode);
            assert_eq!(with_ana(&folder).authority(&scope), authority);
        }
    }
}
