// Package testview turns records of tests into something to read or to hand on: one screen for the terminal,
// Markdown, JUnit; two sets of trials side by side; and a table over the arms of an experiment.
//
// It reads records only, so that old ones render too; the same records give the same bytes. Whatever a
// record holds, no control character and no markup of it reaches the output.
//
// It must not know how a test is run or judged; of the project it imports record, stats, figure, explain (the worst
// moments), verdict (what a comparison says), fault, and render for sets and the page.
package testview
