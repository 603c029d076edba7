// The documentation site: the pages that docs/README.md lists. build.sh sets the variables.
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { links, slug } from './links.mjs'
import { copyPages, readIndex } from './pages.mjs'

const repository = 'https://github.com/node-drainer/node-drainer'
const here = path.dirname(fileURLToPath(import.meta.url))
const root = process.env.SITE_BASE || '/node-drainer/' // the path of the site on its host
const version = process.env.SITE_VERSION || 'main' // the name of the version in the site
const ref = process.env.SITE_REF || 'main' // the branch or tag that other files of the repository are linked in
const versions = (process.env.SITE_VERSIONS || version).split(' ') // all of the menu
const source = path.resolve(process.env.SITE_SOURCE || path.join(here, '../../..')) // the checkout of that version
const out = path.resolve(process.env.SITE_OUT || path.join(here, '../../../dist/site'))

// VitePress finds its own modules only from a folder below this one.
const pages = path.join(here, '../node_modules/.pages')
const { groups, rewrites } = readIndex(source)
copyPages(source, pages, Object.keys(rewrites))

export default defineConfig({
  title: 'node-drainer',
  description: 'Drains Kubernetes nodes before AWS terminates their EC2 instances',
  lang: 'en-US',
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  base: `${root}${version}/`,
  srcDir: pages,
  outDir: path.join(out, version),
  cacheDir: path.join(here, '../node_modules/.cache'),
  rewrites,
  cleanUrls: true,
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify: slug },
    config: (md) => md.use(links, { source, rewrites, files: `${repository}/blob/${ref}/` }),
  },
  themeConfig: {
    sidebar: groups.map(({ title, pages }) => ({ text: title, items: pages })),
    nav: [{ text: version, items: versions.map((text) => ({ text, link: `/../${text}/`, target: '_self' })) }],
    socialLinks: [{ icon: 'github', link: repository, ariaLabel: 'node-drainer on GitHub' }],
    search: {
      provider: 'local',
      // NAME_OF_A_VARIABLE is one word.
      options: { miniSearch: { options: { tokenize: (text) => text.split(/[^\p{L}\p{N}_]+/u) } } },
    },
    outline: [2, 3],
    externalLinkIcon: true,
  },
})
