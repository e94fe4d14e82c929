// Package htmlview writes records as one HTML file to look at, to send and to print: the verdict, the numbers, what to
// doubt, a timeline with a lane for each class of clients, Pod, endpoint and node, the curves over the same time, and the tables behind them.
//
// The file is whole in itself. It loads nothing, and its Content-Security-Policy allows no script or style but its own,
// named by their digests. Without a script everything that matters is there as plain HTML and as drawings; the script adds
// zoom, evidence on hover, filters and tables of any length. The same records give the same bytes.
//
// Whatever a record holds, no markup and no control character of it reaches the page, and a null is never shown as a number.
//
// It must not know how a trial is run or judged; of the project it imports record, figure, and render for its inputs and the page.
package htmlview
