package secretfile

import (
	"bytes"
	"encoding/asn1"
	"encoding/binary"
)

// The first bytes of keystores of Java.
const (
	magicJKS   = 0xfeedfeed
	magicJCEKS = 0xcececece
)

var (
	idData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	idCertBag = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 10, 1, 3}
)

// isKeystore reports whether content begins like a keystore: PKCS #12, JKS or JCEKS.
func isKeystore(content []byte) bool {
	if len(content) < 12 {
		return false
	}
	switch binary.BigEndian.Uint32(content) {
	case magicJKS, magicJCEKS:
		return true
	}
	_, ok := authSafe(content)
	return ok
}

// isPublicKeystore reports whether content is a whole keystore that holds certificates alone. Encrypted contents do not
// count, because they may be keys.
func isPublicKeystore(content []byte) bool {
	if len(content) < 12 {
		return false
	}
	switch binary.BigEndian.Uint32(content) {
	case magicJKS, magicJCEKS:
		return isPublicJKS(content)
	}
	return isPublicPKCS12(content)
}

// isPublicJKS walks through the entries of a keystore of Java, up to the first that is no certificate.
func isPublicJKS(content []byte) bool {
	version, entries := binary.BigEndian.Uint32(content[4:]), binary.BigEndian.Uint32(content[8:])
	r := bytes.NewReader(content[12:])
	number := func() (n uint32, ok bool) { return n, binary.Read(r, binary.BigEndian, &n) == nil }
	skip := func(n int64) bool {
		ok := int64(r.Len()) >= n
		_, _ = r.Seek(n, 1)
		return ok
	}
	text := func() bool {
		var n uint16
		return binary.Read(r, binary.BigEndian, &n) == nil && skip(int64(n))
	}
	const certificate, timestamp = 2, 8
	for range entries {
		if tag, ok := number(); !ok || tag != certificate || !text() || !skip(timestamp) || version > 1 && !text() {
			return false
		}
		if length, ok := number(); !ok || !skip(int64(length)) {
			return false
		}
	}
	const digest = 20
	return entries > 0 && r.Len() == digest
}

// contentInfo is ContentInfo of PKCS #7.
type contentInfo struct {
	Type    asn1.ObjectIdentifier
	Content asn1.RawValue `asn1:"explicit,optional,tag:0"`
}

// authSafe returns the content of a keystore of PKCS #12, which may be cut; false: content is none. The encoding may be
// BER with an indefinite length, which encoding/asn1 does not read.
func authSafe(content []byte) (info contentInfo, ok bool) {
	if content[0] != 0x30 {
		return info, false
	}
	start := content[1:min(len(content), 64)]
	// The version is 3, and the type is data or signedData of PKCS #7.
	version := bytes.Index(start, []byte{2, 1, 3, 0x30})
	if version < 0 || version > 5 || !bytes.Contains(start, []byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7}) {
		return info, false
	}
	var pfx struct {
		Version  int
		AuthSafe contentInfo
		MACData  asn1.RawValue `asn1:"optional"`
	}
	_, _ = asn1.Unmarshal(content, &pfx)
	return pfx.AuthSafe, true
}

// isPublicPKCS12 reports whether all contents of a keystore are unencrypted certificates.
func isPublicPKCS12(content []byte) bool {
	info, ok := authSafe(content)
	var safe []byte
	if !ok || !info.Type.Equal(idData) || !unmarshal(info.Content.Bytes, &safe) {
		return false
	}
	var contents []contentInfo
	if !unmarshal(safe, &contents) || len(contents) == 0 {
		return false
	}
	for _, c := range contents {
		var bags []struct {
			ID         asn1.ObjectIdentifier
			Value      asn1.RawValue `asn1:"explicit,tag:0"`
			Attributes asn1.RawValue `asn1:"set,optional"`
		}
		var data []byte
		if !c.Type.Equal(idData) || !unmarshal(c.Content.Bytes, &data) || !unmarshal(data, &bags) {
			return false
		}
		for _, bag := range bags {
			if !bag.ID.Equal(idCertBag) {
				return false
			}
		}
	}
	return true
}

// unmarshal parses DER without bytes behind it.
func unmarshal(der []byte, to any) bool {
	rest, err := asn1.Unmarshal(der, to)
	return err == nil && len(rest) == 0
}
