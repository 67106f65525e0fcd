import { describe } from '@jest/globals'
import { opaOracle } from './opa.ts'
import { oracleSuite } from './suite.ts'

describe('OPA', () => {
  oracleSuite(opaOracle)
})
