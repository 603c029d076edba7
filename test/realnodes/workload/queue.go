package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// take takes a job; empty if there is none.
func take(client *http.Client, queue, pod string) (job string, err error) {
	return post(client, queue+"/take?pod="+url.QueryEscape(pod))
}

// done reports that a job is done.
func done(client *http.Client, queue, job string) error {
	_, err := post(client, queue+"/done?job="+url.QueryEscape(job))
	return err
}

func post(client *http.Client, address string) (string, error) {
	response, err := client.Post(address, "", nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", address, response.Status)
	}
	return string(text), err
}
