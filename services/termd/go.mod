module github.com/acphost/acphost/services/termd

go 1.26.0

require (
	github.com/acphost/acphost/sdk v0.0.0
	github.com/creack/pty v1.1.24
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
)

replace github.com/acphost/acphost/proto => ../../proto

replace github.com/acphost/acphost/sdk => ../../sdk
