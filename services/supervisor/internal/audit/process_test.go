package audit

// childRole tells the test binary, run again, what to do.
const childRole = "ACPHOST_AUDIT_TEST_CHILD"

func child(string) int { return 2 }
