// Each check finds the mistake that it is for, and nothing on a page without mistakes.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { open, phone } from './browser.mjs'
import { axeProblems, linkProblems, read, searchProblems, switchProblems, widthProblems } from './checks.mjs'

const links = async (tab) => linkProblems(tab, [await read(tab)])
const load = (tab) => tab.loadProblems()
const search = (tab) => searchProblems(tab, 'term', '/page')
const wrongSearch = `<button class="DocSearch-Button">Search</button><input id="localsearch-input">
  <div id="localsearch-list"><a class="result" href="/wrong">wrong</a></div>`

// document is a page that is right but for its body.
const document = (body) => `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">
  <link rel="icon" href="data:,"><title>Page</title>
  <style>@media (prefers-color-scheme: dark) { body { background: #000; color: #fff } a { color: #9cf } }</style>${body}</html>`

test('mistakes', async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'site-'))
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }))
  const tab = await open(folder, 2000)
  t.after(() => tab.close())
  async function show(body, scheme) {
    fs.writeFileSync(path.join(folder, 'page.html'), document(body))
    await tab.look(phone, scheme)
    await tab.visit('/page')
  }
  for (const [name, body, check, want, scheme = 'light'] of [
    ['a page that does not exist', '<a href="/none">link</a>', links, '/none, which does not exist'],
    ['a part that does not exist', '<a href="#none">link</a>', links, 'that page has no such part'],
    ['a link without TLS', '<a href="http://example.com">link</a>', links, 'no https link'],
    ['a link without a domain', '<a href="https://none/x">link</a>', links, 'no https link'],
    ['a script that logs an error', '<script>console.error("wrong")</script>', load, 'console: wrong'],
    ['a script that fails', '<script>none()</script>', load, 'none is not defined'],
    ['a picture that does not exist', '<img src="/none.svg" alt="">', load, '404'],
    ['a request to another host', '<img src="https://127.0.0.2:9/x.svg" alt="">', load, 'another host'],
    ['what is too wide', '<p class="wide" style="width: 400px">wide</p>', widthProblems, 'the window 375: p.wide'],
    ['a picture without text', '<img src="data:,">', axeProblems, 'image-alt'],
    ['gray on white', '<p style="color: #999">gray</p>', axeProblems, 'color-contrast'],
    ['black on black', '<p style="color: #111">black</p>', axeProblems, 'color-contrast', 'dark'],
    ['no switch', '', switchProblems, 'no switch of the scheme'],
    ['a switch that does nothing', '<p class="VPNavBarAppearance"><button>dark</button></p>', switchProblems, 'after the switch'],
    ['no search', '', search, 'does not lead to /page'],
    ['the wrong page found', wrongSearch, search, 'does not lead to /page, but to [/wrong]'],
  ]) {
    await t.test(name, async () => {
      await show(body, scheme)
      const problems = (await check(tab)).join('\n')
      assert.ok(problems.includes(want), `found ${problems}, not ${want}`)
      tab.loadProblems()
    })
  }
  await t.test('none', async () => {
    await show('<main id="top"><h1>Page</h1><a href="#top">top</a> <a href="https://example.com">other</a></main>', 'dark')
    for (const check of [links, widthProblems, axeProblems, load]) assert.deepEqual(await check(tab), [])
  })
})

test('a misspelled word, but not in code', (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'site-'))
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }))
  fs.writeFileSync(path.join(folder, 'page.md'), 'Nodes recieve `recieved` pods, and Karpenter evicts.\n\n```\nreciever\n```\n')
  const arguments_ = ['node_modules/cspell/bin.mjs', '--no-progress', '--no-summary', '--words-only', '--root', folder, '--config', 'cspell.json', '**']
  const { stdout } = spawnSync('node', arguments_, { cwd: path.dirname(import.meta.dirname), encoding: 'utf8' })
  assert.equal(stdout, 'recieve\n')
})
