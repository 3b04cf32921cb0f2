package grant

const childRole = "ACPHOST_GRANT_TEST_CHILD"

func child(string) int { return 2 }
