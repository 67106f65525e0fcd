import { describe, expect, test } from '@jest/globals'
import {
  covers,
  hasRole,
  isScope,
  roleOfScope,
  scopes,
  scopesOfRole,
} from '../../../src/governance/access/scopes.ts'

describe('scopes', () => {
  test.each([
    [['runs:read'], 'runs:read', true],
    [['runs:*'], 'runs:read', true],
    [['runs:*'], 'runs:*', true],
    [['runs:read', 'runs:write'], 'runs:*', false],
    [['runs:read'], 'runs:write', false],
    [['run:*'], 'runs:read', false],
    [['*'], 'runs:read', false],
    [[], 'runs:read', false],
  ])('%j covers %s: %p', (held, wanted, expected) => {
    expect(covers(held, wanted)).toBe(expected)
  })

  test.each([
    ['runs:read', true],
    ['runs:*', true],
    ['secrets:*', true],
    ['secrets:list', false],
    ['nothing:*', false],
    ['constructor', false],
    ['*', false],
  ])('%s is a scope: %p', (text, expected) => {
    expect(isScope(text)).toBe(expected)
  })

  test('a whole area takes the role of its most demanding scope', () => {
    expect(roleOfScope('runs:*')).toBe('member')
    expect(roleOfScope('governance:*')).toBe('owner')
    expect(roleOfScope('runs:read')).toBe('viewer')
  })

  test('a role has the scopes of every role below it', () => {
    for (const [low, high] of [
      ['viewer', 'member'],
      ['member', 'admin'],
      ['admin', 'owner'],
    ] as const) {
      expect(hasRole(high, low)).toBe(true)
      expect(hasRole(low, high)).toBe(false)
      expect(scopesOfRole(high)).toEqual(expect.arrayContaining(scopesOfRole(low)))
    }
    expect(scopesOfRole('owner')).toEqual(Object.keys(scopes))
    expect(scopesOfRole('viewer')).not.toContain('agents:authorize')
  })
})
