import { describe } from '@jest/globals'
import { labelSuite } from './label-suite.ts'
import { opaLabelOracle, opaOracle } from './opa.ts'
import { planSuite } from './plan-suite.ts'
import { oracleSuite } from './suite.ts'

describe('OPA', () => {
  oracleSuite(opaOracle)
})

describe('OPA on label rules', () => {
  labelSuite(opaLabelOracle)
})

describe('OPA on plans', () => {
  planSuite(opaOracle)
})
