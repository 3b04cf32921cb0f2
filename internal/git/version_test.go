package git

import (
	"os"
	"testing"
)

func TestVersion_TakesOldestOfSeveralGits(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "\xcf\xfa\x00git/2.50.1 (Apple Git-155)\x00", "b": "\xcf\xfa\x00git/2.39.5 (Apple Git-154)\x00", "c": "\xcf\xfa"} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at := func(names ...string) (files []string) {
		for _, name := range names {
			files = append(files, dir+"/"+name)
		}
		return files
	}
	for _, c := range []struct {
		files []string
		want  Version
		ok    bool
	}{
		{at("a", "none"), Version{2, 50}, true}, {at("a", "b"), Version{2, 39}, true}, {at("b", "a"), Version{2, 39}, true},
		{at("a", "c"), Version{}, false}, {at("none"), Version{}, false},
	} {
		if got, ok := oldest(c.files); got != c.want || ok != c.ok {
			t.Errorf("%q: %v, %t", c.files, got, ok)
		}
	}
}
