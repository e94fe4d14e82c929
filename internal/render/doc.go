// Package render turns records into something to read: a picture of one trial
// for the terminal, and tables over sets of trials for the terminal, as
// Markdown and as JSON.
//
// It reads records only, never a cluster, so that old ones render too; the same records give
// the same bytes. Whatever a record holds, no control character of it reaches the output.
//
// It must not know how a trial is run; of the project it imports record, stats, figure and its own page.
package render
