import fs from 'node:fs'
import path from 'node:path'

// linksOf returns what a text links to, with the titles.
function linksOf(text) {
  return [...text.matchAll(/\[([^\]]+)\]\(([^)#\s]+)\)/g)].map(([, title, target]) => ({ title, target }))
}

// addressOf returns where a file of the repository is in the site: docs/migration/x.md in migration/x.md.
function addressOf(file) {
  if (file === 'README.md') return 'index.md'
  if (file === 'docs/README.md') return 'pages.md'
  if (file.startsWith('docs/')) return file.slice('docs/'.length)
  if (file.startsWith('charts/node-drainer-')) return `chart-${file.split('/')[1].slice('node-drainer-'.length)}.md`
  if (file.startsWith('charts/')) return 'chart.md'
  return path.basename(file).toLowerCase()
}

// readIndex returns the pages that docs/README.md lists, in its groups and its order, and the address of each file.
// A group begins with a bold title, alone in a line or as the first words of a sentence.
export function readIndex(source) {
  const index = fs.readFileSync(path.join(source, 'docs/README.md'), 'utf8')
  const rewrites = { 'docs/README.md': addressOf('docs/README.md') }
  const groups = index.split(/^\*\*/m).slice(1).map((text) => ({
    title: text.slice(0, text.indexOf('**')),
    pages: linksOf(text).filter(({ target }) => target.endsWith('.md')).map(({ title, target }) => {
      const file = path.posix.join('docs', target)
      rewrites[file] = addressOf(file)
      return { text: file === 'README.md' ? 'Overview' : title, link: `/${rewrites[file].replace(/(index)?\.md$/, '')}` }
    }),
  }))
  if (groups.length === 0 || !rewrites['README.md']) throw new Error('docs/README.md has no groups of pages')
  groups[0].pages.push({ text: 'All pages', link: '/pages' })
  return { groups, rewrites }
}

// copyPages copies pages with the pictures below docs to a folder, which it empties first.
export function copyPages(source, folder, files) {
  fs.rmSync(folder, { recursive: true, force: true })
  for (const file of files) fs.cpSync(path.join(source, file), path.join(folder, file))
  const isPicture = (file) => fs.statSync(file).isDirectory() || file.endsWith('.svg')
  fs.cpSync(path.join(source, 'docs'), path.join(folder, 'docs'), { recursive: true, filter: isPicture })
}
