package intent

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/acphost/acphost/internal/hosts"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// sameMachine reports whether a question about fetching an address of the web names the machine that acphost's proxy is
// to connect to: in the tool's input, and in the title that people read. The question does not say where a name leads,
// so addresses that are not on the internet are another question. A redirect to another machine is, too.
func sameMachine(asked, called *permissionv1.Action) bool {
	var input struct {
		URL string `json:"url"`
	}
	to := called.GetEndpoint()
	if called.GetDoor() != permissionv1.Door_DOOR_KERNEL || asked.GetKind() != "tool.fetch" || to == nil || asked.GetCommand() != nil ||
		json.Unmarshal([]byte(asked.GetRawInput()), &input) != nil {
		return false
	}
	u, err := url.Parse(input.URL)
	if err != nil || u.User != nil || u.Hostname() == "" || !namesMachine(asked.GetTitle(), u.Host) {
		return false
	}
	host, err := hosts.Parse(u.Hostname())
	end, ok := hosts.NewEndpoint(to.GetHost(), to.GetPort(), to.GetAddresses())
	if err != nil || !ok || host != end.Host {
		return false
	}
	for _, address := range end.Special() {
		if address != host.Address {
			return false
		}
	}
	switch {
	case u.Port() != "":
		return u.Port() == strconv.Itoa(int(end.Port))
	case u.Scheme == "https":
		return end.Port == 443
	}
	return u.Scheme == "http" && (end.Port == 80 || end.Port == 443) // agents take the safer one by themselves
}

// namesMachine reports whether people read the name of a machine in a title: as a word, or as that of an address.
func namesMachine(title, host string) bool {
	for from := 0; ; from++ {
		next := strings.Index(title[from:], host)
		if next < 0 || !isReadable(title[:from+next+len(host)]) {
			return false
		}
		from += next
		before, after := title[:from], title[from+len(host):]
		scheme := strings.HasSuffix(before, "https://") || strings.HasSuffix(before, "http://")
		before = strings.TrimSuffix(strings.TrimSuffix(before, "https://"), "http://")
		begins := before == "" || strings.ContainsAny(before[len(before)-1:], " `\"'(<\n:") && (scheme || before[len(before)-1] != ':')
		if begins && (after == "" || strings.ContainsAny(after[:1], " `\"')>\n/?#:,")) {
			return true
		}
	}
}
