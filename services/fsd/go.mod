module github.com/acphost/acphost/services/fsd

go 1.26.0

require golang.org/x/sys v0.49.0

replace github.com/acphost/acphost/proto => ../../proto

replace github.com/acphost/acphost/sdk => ../../sdk
