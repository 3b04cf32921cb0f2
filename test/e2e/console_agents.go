package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// playBrowser signs in to the console at a URL as its page does. It writes the code to a file, and asks every 50 ms
// whether a person has confirmed it. It writes the last answer to the file with ".end" after its name.
func playBrowser(url, file string) int {
	var cookies []*http.Cookie
	call := func(path, body string) (status int, answer string) {
		req, err := http.NewRequest(http.MethodPost, url+"api/"+path, strings.NewReader(body))
		if err != nil {
			return 0, err.Error()
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Origin", strings.TrimSuffix(url, "/console/"))
		for _, c := range cookies {
			req.AddCookie(c)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		if all := res.Cookies(); len(all) > 0 {
			cookies = all
		}
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(bytes.TrimSpace(text))
	}
	write := func(name, text string) {
		_ = os.WriteFile(name+".new", []byte(text), 0o600)
		_ = os.Rename(name+".new", name)
	}
	status, answer := call("begin", "{}")
	var shown struct{ Code, Secret string }
	if err := json.Unmarshal([]byte(answer), &shown); err != nil {
		write(file+".end", fmt.Sprintf("begin: %d %s", status, answer))
		return 1
	}
	write(file, shown.Code)
	for range time.Tick(50 * time.Millisecond) {
		if status, answer = call("claim", `{"secret":"`+shown.Secret+`"}`); !strings.Contains(answer, `"waiting"`) {
			break
		}
	}
	write(file+".end", fmt.Sprintf("%d %s", status, answer))
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
