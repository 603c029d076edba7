import fs from 'node:fs'
import path from 'node:path'

// slug is GitHub's name for a heading. VitePress has others, and the pages link to those of GitHub.
export function slug(heading) {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, '').replaceAll(' ', '-')
}

// links is a plugin of markdown-it. It lets a relative link to a page of the site lead to that page, and one to any other
// file of the repository to GitHub, in the version that the pages describe. A link to a file that does not exist is an error.
export function links(md, { source, rewrites, files }) {
  const addresses = Object.fromEntries(Object.entries(rewrites).map(([file, address]) => [address, file]))

  function resolve(href, file) {
    const [target, anchor] = href.split('#')
    const to = path.posix.join(path.posix.dirname(file), target)
    if (!fs.existsSync(path.join(source, to))) throw new Error(`${file} links to ${href}, which does not exist`)
    const address = rewrites[to]
    return (address ? `/${address}` : files + to.replace(/\/$/, '')) + (anchor ? `#${anchor}` : '')
  }

  md.core.ruler.push('repository-links', ({ tokens, env }) => {
    const file = addresses[env.relativePath]
    if (!file) return
    for (const token of tokens.flatMap(({ children }) => children || [])) {
      const href = token.type === 'link_open' && token.attrGet('href')
      if (href && !/^(#|[a-z]+:)/.test(href)) token.attrSet('href', resolve(href, file))
    }
  })

  // Code is no template of Vue, whatever braces it has.
  const code = md.renderer.rules.code_inline
  md.renderer.rules.code_inline = (...args) => code(...args).replace(/^<code/, '<code v-pre')

  // A table that is wider than a phone can be scrolled with the keys, too.
  md.renderer.rules.table_open = () => '<table tabindex="0">\n'
}
