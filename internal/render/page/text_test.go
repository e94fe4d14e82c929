package page

import "testing"

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"probe-7d9": "probe-7d9", "a\x1b[31mb": `a\x1b[31mb`, "a\r\nb\tc": `a\x0d\x0ab\x09c`, "\x7f": `\x7f`,
		"\xff": `\xff`, "\u202eevil": `\u202eevil`, "\u009b31m": `\u009b31m`, "zero\u200bwidth": `zero\u200bwidth`, "名": "名", "�": "�",
	} {
		if got := Clean(in); got != want || Clean(got) != got {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
	if got, want := Markdown("a|b\n<script>*x*_y_`z`[l](u)&"), "a\\|b\\\\x0a&lt;script>\\*x\\*\\_y\\_\\`z\\`\\[l\\](u)&amp;"; got != want {
		t.Errorf("Markdown %q, not %q", got, want)
	}
}
