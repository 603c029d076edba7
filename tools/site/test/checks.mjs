// The checks of the page that a tab shows. Each returns what is wrong, as a list of texts.
import fs from 'node:fs'

const axe = fs.readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8')

// pathOf returns the path of an address, as the site has it.
const pathOf = (address) => new URL(address).pathname.replace(/\.html$/, '')

// read returns what the links of other pages can lead to, and where the page's own lead.
export async function read({ page }) {
  const found = await page.evaluate(() => ({
    ids: [...document.querySelectorAll('[id]')].map((e) => e.id),
    links: [...document.querySelectorAll('a[href]')].map((e) => e.href),
  }))
  return { path: pathOf(page.url()), ...found }
}

// linkProblems finds links that lead to no page, or to nothing on it. Links to other hosts are not followed.
export function linkProblems({ host }, pages) {
  const targets = new Set(pages.flatMap(({ path, ids }) => [path, ...ids.map((id) => `${path}#${id}`)]))
  function problem(link) {
    const to = new URL(link)
    if (to.origin !== host) {
      return to.protocol === 'https:' && to.hostname.includes('.') && !to.port ? '' : 'which is no https link to a host with a name'
    }
    const path = pathOf(link)
    if (!targets.has(path)) return 'which does not exist'
    return !to.hash || targets.has(path + decodeURIComponent(to.hash)) ? '' : 'and that page has no such part'
  }
  return pages.flatMap(({ path, links }) => links.map((link) => [link, problem(link)]).filter(([, p]) => p)
    .map(([link, p]) => `${path} links to ${link}, ${p}`))
}

// widthProblems finds what is wider than the window and cannot be scrolled by itself.
export const widthProblems = ({ page }) => page.evaluate(() => {
  const root = document.documentElement, width = root.clientWidth
  if (root.scrollWidth <= width) return []
  const scrolls = (e) => e && e !== root && (getComputedStyle(e).overflowX !== 'visible' || scrolls(e.parentElement))
  const wide = [...document.body.querySelectorAll('*')]
    .filter((e) => e.getBoundingClientRect().right > width && !scrolls(e.parentElement))
    .map((e) => `${e.tagName.toLowerCase()}.${e.className}`)
  return [`the page is ${root.scrollWidth} px wide, the window ${width}: ${wide.slice(0, 5).join(', ')}`]
})

// axeProblems finds violations of WCAG 2 at the levels A and AA. The contrast is that of the scheme that is shown.
export async function axeProblems({ page }) {
  await page.evaluate(axe)
  return page.evaluate(async () => {
    const { violations } = await window.axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'],
    })
    return violations.flatMap(({ id, nodes }) => nodes.slice(0, 3).map((n) => `${id}: ${n.html.slice(0, 200)}: ${n.failureSummary}`))
  })
}

// switchProblems clicks the button that changes from the light to the dark scheme.
export async function switchProblems({ page }) {
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
  const light = await background()
  try {
    await page.locator('.VPNavBarAppearance button').click()
  } catch (error) {
    return [`no switch of the scheme: ${error.message}`]
  }
  const dark = await background()
  return light === 'rgb(255, 255, 255)' && dark !== light ? [] : [`the background is ${light}, and ${dark} after the switch`]
}

// searchProblems searches a term with the keyboard, and opens the first result, which has to be a part of a page.
export async function searchProblems({ page }, term, want) {
  const results = () => page.$$eval('#localsearch-list a.result', (all) => all.map((e) => new URL(e.href).pathname))
  try {
    await page.locator('button.DocSearch-Button').click()
    await page.locator('#localsearch-input').fill(term)
    await page.waitForFunction((path) => {
      const first = document.querySelector('#localsearch-list a.result')
      return first && new URL(first.href).pathname === path
    }, {}, want)
    await page.focus('#localsearch-input')
    await page.keyboard.press('Enter')
    await page.waitForFunction((path) => location.pathname === path && !document.querySelector('#localsearch-input'), {}, want)
  } catch (error) {
    return [`search for "${term}" does not lead to ${want}, but to [${await results()}]: ${error.message}`]
  }
  return []
}
