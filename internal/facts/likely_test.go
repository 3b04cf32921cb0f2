package facts

import (
	"path"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestLikely_NamesFilesOfCommands(t *testing.T) {
	for line, want := range map[string]string{
		"echo a > f":                        "write /w/f",
		"echo a >> f 2>&1 < in":             "write /w/f, read /w/in",
		"echo a > /dev/null 2> /dev/stderr": "",
		"sed -i s/a/b/ f.go":                "write /w/f.go",
		"sed -i.bak -e s/a/b/ f.go g.go":    "write /w/f.go, write /w/g.go",
		"sed -i '' s/a/b/ f.go":             "write /w/f.go",
		"sed -E -i s/a/b/ f.go":             "write /w/f.go",
		"sed -n 1,5p f.go":                  "read /w/f.go",
		"sed -f s.sed -i f.go":              "read /w/s.sed, write /w/f.go",
		"perl -pi -e s/a/b/ f.go":           "write /w/f.go",
		"perl x.pl a":                       "read /w/x.pl",
		"cp a b":                            "read /w/a, write /w/b",
		"cp -r a c d/":                      "read /w/a, read /w/c, write /w/d/a, write /w/d/c",
		"cp -t d a":                         "read /w/a, write /w/d/a",
		"cp a .":                            "read /w/a, write /w/a",
		"mv a b":                            "write /w/a, write /w/b",
		"rm -rf a /tmp/b":                   "write /w/a, write /tmp/b",
		"sudo rm a":                         "write /w/a",
		"bash -c 'cp a b'":                  "read /w/a, write /w/b",
		"rm *.o $X":                         "",
		"echo x | tee -a f":                 "write /w/f",
		"git add f g":                       "read /w/f, read /w/g",
		"git add .":                         "",
		"git -C sub add f":                  "read /w/sub/f",
		"git rm f":                          "write /w/f",
		"git mv a b":                        "write /w/a, write /w/b",
		"git restore --source HEAD f":       "write /w/f",
		"git checkout HEAD -- f":            "write /w/f",
		"git checkout main":                 "",
		"git commit -m f":                   "",
		"python3 f":                         "read /w/f",
		"python3 -u f.py a.txt":             "read /w/f.py",
		"python3 -m http.server":            "",
		"python3 -c 1 a":                    "",
		"node --import tsx f.ts":            "read /w/f.ts",
		"bash x.sh y":                       "read /w/x.sh",
		"chmod +x f":                        "write /w/f",
		"dd if=a of=b bs=1":                 "read /w/a, write /w/b",
		"curl -so o.html https://a.example": "write /w/o.html",
		"scp a host:b":                      "read /w/a",
		"gcc -o p a.c":                      "write /w/p, read /w/a.c",
		"zip z.zip a b":                     "write /w/z.zip, read /w/a, read /w/b",
		"cat a && unheard-of b":             "read /w/a",
	} {
		t.Run(line, func(t *testing.T) {
			subs, _ := shell.Parse(line)
			var got []string
			for _, sub := range subs {
				for _, file := range Likely(sub, path.Join("/w", sub.GetCwd())) {
					got = append(got, map[permissionv1.Access]string{
						permissionv1.Access_ACCESS_READ: "read ", permissionv1.Access_ACCESS_WRITE: "write ",
					}[file.GetAccess()]+file.GetPath())
				}
			}
			if got := strings.Join(got, ", "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestLikely_OmitsRelativeNamesInUnknownFolder(t *testing.T) {
	subs, _ := shell.Parse("cp a /b > c")
	var got []string
	for _, file := range Likely(subs[0], "") {
		got = append(got, file.GetPath())
	}
	if len(got) != 1 || got[0] != "/b" {
		t.Errorf("got %q, want /b alone", got)
	}
}
