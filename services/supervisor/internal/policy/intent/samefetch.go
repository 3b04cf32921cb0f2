package intent

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/acphost/acphost/internal/hosts"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// sameMachine reports whether a request to fetch a web address names the machine to which acphost's proxy is to
// connect, in the tool's input and in the displayed title. The request does not show the resolved address, so addresses
// outside of the internet need a request of their own. So do redirects to other machines.
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
	return u.Scheme == "http" && (end.Port == 80 || end.Port == 443) // agents upgrade to https without asking
}

// namesMachine reports whether a title names the machine, as a word or in an address.
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
