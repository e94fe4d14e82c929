package finding

// RuleDoc is what a rule says about itself: the text behind "audit explain", docs/rules.md
// and the rules of a SARIF log. Its strings are plain sentences, not markup.
type RuleDoc struct {
	// ID is stable for ever, e.g. DP101.
	ID    string
	Topic Topic
	// Severity is the usual one; a single finding may be milder.
	Severity Severity
	// Title is what is wrong, in one line without a period.
	Title string
	// Physics says what happens and why.
	Physics string
	// Sources are what the physics rests on.
	Sources []string
	// Remedy says in general what to do.
	Remedy string
}
