// Checks the documentation site in Chromium.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { desktop, open, phone } from './browser.mjs'
import { axeProblems, linkProblems, read, searchProblems, switchProblems, widthProblems } from './checks.mjs'

const base = '/node-drainer/' // the path of the site on its host
const here = path.dirname(import.meta.dirname)
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'site-'))
const right = (problems) => assert.deepEqual(problems, [])

// build builds the site of this checkout, with a release of it and a tag that is no release.
function build() {
  const clone = path.join(folder, 'clone')
  const run = (...command) => execFileSync(command[0], command.slice(1), { cwd: here, stdio: ['ignore', 'ignore', 'inherit'] })
  run('git', 'clone', '--quiet', '--shared', '../..', clone)
  run('git', '-C', clone, 'tag', 'v0.1.0')
  run('git', '-C', clone, 'tag', 'v0.2.0-rc.1')
  run('./build.sh', path.join(folder, 'host', base), clone)
}

// addresses returns the paths of the pages of a version.
const addresses = (version) => fs.readdirSync(path.join(folder, 'host', base, version), { recursive: true })
  .filter((file) => file.endsWith('.html') && file !== '404.html')
  .map((file) => `${base}${version}/${file.replace(/(^|\/)index\.html$|\.html$/, '$1')}`)

test('site', async (t) => {
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }))
  build()
  const tab = await open(path.join(folder, 'host'))
  t.after(() => tab.close())
  const pages = []
  for (const version of ['main', 'v0.1.0', 'latest']) {
    const all = addresses(version)
    assert.ok(all.length > 25 && all.includes(`${base}${version}/`), `${version} has only ${all}`)
    for (const address of all) {
      await t.test(address, async () => {
        await tab.look(desktop, 'light')
        await tab.visit(address)
        pages.push(await read(tab))
        if (version === 'main') {
          right(await axeProblems(tab))
          await tab.look(phone, 'dark')
          right(await widthProblems(tab))
          right(await axeProblems(tab))
        }
        right(tab.loadProblems())
      })
    }
  }
  await t.test('links', () => right(linkProblems(tab, pages)))
  await tab.look(desktop, 'light')
  await t.test('switch', async () => {
    await tab.visit(`${base}main/`)
    right(await switchProblems(tab))
    await tab.page.evaluate(() => localStorage.clear())
  })
  // Terms that users know lead to the pages that explain them.
  for (const [term, page] of Object.entries({
    DRAIN_FORCE_SPACING: 'draining',
    NodeDrainerPodsLeftBehind: 'runbook',
    IRSA: 'install',
    'Exit codes': 'rollouts',
  })) {
    await t.test(`search ${term}`, async () => {
      await tab.visit(`${base}main/`)
      right(await searchProblems(tab, term, `${base}main/${page}`))
    })
  }
  // The host leads to the newest release, whose menu leads to all versions. Files are linked in its tag.
  await t.test('versions', async () => {
    await tab.page.goto(tab.host + base)
    await tab.page.waitForSelector('.VPDoc h1')
    const menu = await tab.page.$$eval('.VPNavBarMenu a', (all) => all.map((e) => e.pathname))
    assert.deepEqual(menu, ['latest', 'v0.1.0', 'main'].map((version) => `${base}${version}/`))
    const { links } = await read(tab)
    assert.ok(links.includes('https://github.com/node-drainer/node-drainer/blob/v0.1.0/LICENSE'), links)
    await tab.page.evaluate(() => document.querySelector('.VPNavBarMenu a[href$="/main/"]').click())
    await tab.page.waitForFunction(() => document.querySelector('.VPNavBarMenu button .text')?.textContent.trim() === 'main')
    right(tab.loadProblems())
  })
})
