package conformance

func permissionCases() []Case { return nil }
