//! Who leaves it to other processes to ask.

use super::*;

/// Between the answer and the question for news, the thread has stood still.
#[test]
fn who_was_told_to_stand_back_sleeps_no_longer_though_it_listens_late() {
    let rules = Rules { stand_back: Some(Duration::from_millis(25)), ..rules() };
    let mut line = Line::default();
    let Next::Ask(question) = line.next(&claim(1), at(0), &rules) else { panic!("it is free") };
    assert_eq!(token(line.heard(&claim(1), &question, granted(7), at(0), &rules).unwrap()), Some(7));
    let waits =
        |line: &mut Line, now| matches!(line.next(&claim(2), now, &rules), Next::Answer(Attempt::Busy(_)));
    assert!(waits(&mut line, at(1)));
    let (way, _) = line.leave(&claim(1), Duration::ZERO, at(200), &rules);
    assert!(matches!(way, Way::Release(_)));
    line.released(OwnerId::from_u128(1), &claim(1), &Ok(Release::Released), at(201), &rules);
    assert!(waits(&mut line, at(224)), "it stands back");
    for now in [at(224), at(225), at(300)] {
        let asks_at = match line.news(OwnerId::from_u128(2), now) {
            News::LineUntil(moment) => moment,
            _ => panic!("it hears of nothing at {now:?}"),
        };
        assert_eq!(asks_at, now.max(at(225)));
    }
}
