import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import puppeteer from 'puppeteer-core'

export const desktop = 1280
export const phone = 375
const height = 800
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.svg': 'image/svg+xml' }

// serve serves a folder on this machine as GitHub Pages does: /name is the file name.html.
async function serve(folder) {
  const server = http.createServer((request, response) => {
    const name = path.join(folder, new URL(request.url, 'http://host').pathname)
    const file = [name, `${name}.html`, path.join(name, 'index.html')].find((f) => fs.statSync(f, { throwIfNoEntry: false })?.isFile())
    response.writeHead(file ? 200 : 404, { 'Content-Type': types[path.extname(file || '')] || 'text/plain', 'Cache-Control': 'no-store' })
    response.end(file ? fs.readFileSync(file) : 'not found')
  })
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready))
  return server
}

// chromium returns the program, which Debian and the hosted CI name differently.
function chromium() {
  const folders = process.env.PATH.split(path.delimiter)
  const found = ['chromium', 'google-chrome'].flatMap((name) => folders.map((f) => path.join(f, name))).find((f) => fs.existsSync(f))
  if (!found) throw new Error('neither chromium nor google-chrome is on PATH')
  return found
}

// open serves a folder, and opens a tab of Chromium for it. patience is in milliseconds.
export async function open(folder, patience = 30000) {
  const server = await serve(folder)
  const host = `http://127.0.0.1:${server.address().port}`
  // Chromium refuses its sandbox to root. It loads nothing here but the site.
  const browser = await puppeteer.launch({ executablePath: chromium(), args: ['--no-sandbox'] })
  const page = await browser.newPage()
  page.setDefaultTimeout(patience)
  let problems = []
  page.on('console', (m) => { if (/error|warn/.test(m.type())) problems.push(`console: ${m.text()} ${m.location().url}`) })
  page.on('pageerror', (error) => problems.push(`exception: ${error.message}`))
  page.on('request', (request) => {
    if (!request.url().startsWith(`${host}/`) && !/^(data|blob):/.test(request.url())) problems.push(`request to another host: ${request.url()}`)
  })
  return {
    page,
    host,
    // look lets the page be seen at a width, in the light or the dark scheme.
    async look(width, scheme) {
      await page.setViewport({ width, height })
      await page.emulateMediaFeatures([
        { name: 'prefers-color-scheme', value: scheme },
        { name: 'prefers-reduced-motion', value: 'reduce' },
      ])
    },
    // visit shows a page, and waits until its scripts work.
    async visit(address) {
      await page.goto(host + address)
      await page.waitForFunction(() => { const app = document.querySelector('#app'); return !app || !!app.__vue_app__ })
    },
    // loadProblems returns what went wrong since the last call: errors of scripts, files that are missing, and requests to
    // other hosts, which do not work offline.
    loadProblems() {
      const found = problems
      problems = []
      return found
    },
    async close() {
      await browser.close()
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}
