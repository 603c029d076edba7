package check

import "testing"

// FuzzPolicy checks that no policy of a queue stops the check.
func FuzzPolicy(f *testing.F) {
	f.Add(`{"Statement":[{"Effect":"Deny","Principal":"*","Action":["sqs:*"],"Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}`)
	f.Add(`{"Statement":{"Principal":{"AWS":["a"]},"Condition":{"ArnEquals":{"aws:SourceArn":[1,null]}}}}`)
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parsePolicy(text) })
}
