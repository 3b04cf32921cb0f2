package acp

import (
	"slices"
	"strings"
	"unicode"

	"github.com/acphost/acphost/internal/invisible"
)

// Words in the id or the name of an option that mean reject or allow, in lower case. firm words count at any position:
// an option that allows never contains "reject". The others count only as the first word: "Yes, and don't ask again"
// allows.
var (
	firmRefusals = words(`reject rejects rejected rejecting deny denies denied decline declined disallow disallowed refuse refused
		forbid forbidden rejectonce rejectalways denyonce denyalways
		ablehnen abgelehnt verweigern verbieten rejeter refuser interdire rechazar denegar prohibir recusar rejeitar negar rifiuta
		rifiutare nega tolak menolak weigeren afwijzen odrzuć odmów zamítnout odmítnout avvisa neka avvis afvis nekt hylkää kiellä elutasít
		respinge reddet απόρριψη отклонить отказать запретить відхилити відмовити`)
	refusals = words(`no not never nope cancel abort block stop skip dont don't don’t do-not donot n
		nein nicht nie abbrechen non jamais annuler nunca cancelar não nao nei nej nee nooit annulla nie anuluj ne ei nem nu hayır
		iptal tidak jangan không từ όχι ακύρωση нет никогда отмена отменить ні скасувати`)
	permissions = words(`allow allows allowed approve approved accept accepted permit permitted grant authorize authorise yes yep proceed
		continue ok okay always allowonce allowalways
		ja erlauben zulassen genehmigen akzeptieren oui autoriser accepter sí si permitir aceptar aprobar sim aprovar sì consenti accetta
		toestaan accepteren tak zezwól ano povolit tillåt tillat tillad salli engedélyez permite evet ναι да разрешить так дозволити`)
	// The unspaced words are for scripts without spaces between words.
	unspacedRefusals    = []string{"拒绝", "拒絕", "不允许", "不允許", "禁止", "取消", "否", "不要", "拒否", "許可しない", "いいえ", "キャンセル", "거부", "아니요", "취소", "رفض", "لا", "ปฏิเสธ", "अस्वीकार", "नहीं", "דחה", "סרב"}
	unspacedPermissions = []string{"允许", "允許", "同意", "批准", "許可", "はい", "허용", "승인", "سماح", "نعم", "อนุญาต", "अनुमति", "हाँ", "אשר", "אפשר"}
)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// IsPlainName reports whether the name of an option consists of one or two common words for its kind.
func IsPlainName(name, kind string) bool {
	for i, r := range name {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && (r != ' ' || i == 0 || i == len(name)-1) {
			return false
		}
	}
	return kind != "" && choices[wordOf(name)] == kind
}

// contradicts reports whether the id or the name of an option means the opposite of its kind. A text that cannot be
// interpreted contradicts no kind.
func contradicts(kind, text string) bool {
	refuses, allows := meaning(text)
	switch kind {
	case AllowOnce, AllowAlways:
		return refuses
	case RejectOnce, RejectAlways:
		return allows && !refuses
	}
	return false
}

// meaning reports whether the id or the name of an option means that the request is rejected or allowed.
func meaning(text string) (refuses, allows bool) {
	var b strings.Builder
	small := false
	for _, r := range text {
		if invisible.Is(r) {
			continue
		}
		if small && unicode.IsUpper(r) { // "rejectOnce"
			b.WriteByte(' ')
		}
		small = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	text = b.String()
	parts := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && r != '\'' && r != '’' })
	if len(parts) == 0 {
		return false, false
	}
	first := parts[0]
	refuses = refusals[first] || first == "do" && len(parts) > 1 && parts[1] == "not" ||
		slices.ContainsFunc(parts, func(w string) bool { return firmRefusals[w] }) || startsWith(text, unspacedRefusals)
	allows = !refuses && (permissions[first] || startsWith(text, unspacedPermissions))
	return refuses, allows
}

// startsWith reports whether the letters of a text begin with an entry of a list.
func startsWith(text string, list []string) bool {
	text = strings.TrimLeftFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	return slices.ContainsFunc(list, func(begin string) bool { return strings.HasPrefix(text, begin) })
}
