import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { protocolToolKind, protocolToolSideEffect, toolTokens } from '../../src/policy/protocol-tools.ts'

describe('protocol tools by their names', () => {
  test.each([
    ['send_message', 'egress'],
    ['create_issue', 'egress'],
    ['getAndShare', 'egress'],
    ['post-comment', 'egress'],
    ['HTTPPost', 'egress'],
    ['uploadFile', 'egress'],
    ['chat.postMessage', 'egress'],
    ['search_and_send', 'egress'],
    ['web_search', 'web'],
    ['browse', 'web'],
    ['crawlSite', 'web'],
    ['scrape_get', 'web'],
    ['fetch', 'web'],
    ['fetch_page', 'write'],
    ['Fetch', 'write'],
    ['get_issue', 'read'],
    ['listFiles', 'read'],
    ['read', 'read'],
    ['resources_read', 'read'],
    ['prompts_get', 'read'],
    // whole words only
    ['sender_info', 'write'],
    ['list_posts', 'read'],
    ['list_comments', 'read'],
    ['recreate_x', 'write'],
    ['getter', 'write'],
    ['webhook_delete', 'write'],
    ['research', 'write'],
    ['issue.get', 'write'],
    ['delete_file', 'write'],
    ['', 'write'],
  ] as const)('%s is %s', (tool, kind) => {
    expect(protocolToolKind(`mcp__server__${tool}`)).toBe(kind)
  })

  test('the server says nothing', () => {
    expect(protocolToolKind('mcp__send_web_get__delete')).toBe('write')
    expect(protocolToolKind('mcp__web__get_page')).toBe('read')
  })

  test('if the name can be split in two ways, the strictest counts', () => {
    expect(protocolToolKind('mcp__my__get_server__delete')).toBe('write')
    expect(protocolToolKind('mcp__my__send__get')).toBe('egress')
    expect(protocolToolKind(`mcp__a${'__get'.repeat(50)}`)).toBe('write')
  })

  test('anything else is a write', () => {
    for (const name of ['get_issue', 'mcp__get', 'mcp_x_get', 'MCP__a__get', 'mcp____get'])
      expect([name, protocolToolKind(name)]).toEqual([name, 'write'])
  })

  test('labels', () => {
    expect(protocolToolSideEffect('mcp__s__web_search')).toEqual({ sideEffect: 'read', label: 'untrusted' })
    expect(protocolToolSideEffect('mcp__s__get_x')).toEqual({ sideEffect: 'read', label: 'internal' })
    expect(protocolToolSideEffect('mcp__s__send')).toEqual({ sideEffect: 'egress', label: null })
    expect(protocolToolSideEffect('mcp__s__set')).toEqual({ sideEffect: 'write', label: null })
  })

  test('an egress word anywhere in the name wins', () => {
    const word = fc.constantFrom('get', 'list', 'web', 'crawl', 'issue', 'x', '9', 'read')
    const egress = fc.constantFrom('send', 'post', 'create', 'comment', 'share', 'upload')
    const joined = fc.constantFrom('_', '-', '__')
    fc.assert(
      fc.property(fc.array(word), egress, fc.array(word), joined, (before, middle, after, join) => {
        expect(protocolToolKind(`mcp__s__${[...before, middle, ...after].join(join)}`)).toBe('egress')
      }),
    )
  })

  test('words of a name', () => {
    expect(toolTokens('HTTPPost_file-listAll__XML2json')).toEqual([
      'http',
      'post',
      'file',
      'list',
      'all',
      'xml2json',
    ])
  })
})
