// Checks of RSA (Web Cryptography §20 to §22), with the key and the signature of RFC 7515 §A.2, and
// with OpenSSL's results for that key.
import { about, check, equal, rejects } from "../check.js";
export { default } from "../check.js";

const { subtle } = crypto;
const text = (string) => new TextEncoder().encode(string);
const bytes = (text) => Uint8Array.fromBase64(text, { alphabet: "base64url" });
const base64 = (buffer) => new Uint8Array(buffer).toBase64({ alphabet: "base64url", omitPadding: true });

const JWK = {
  kty: "RSA", e: "AQAB",
  n: "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-" +
    "pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2Ca" +
    "pHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb5" +
    "4h4FRWyuXpoQ",
  d: "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-" +
    "pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjud" +
    "U2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1" +
    "DhOVRuOopznQ",
  p: "4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_Py5PJdTJNPY8cQn7ouZ2KK" +
    "DcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc",
  q: "uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQeZD_YwD66t62wDmpe_Hl" +
    "B-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc",
  dp: "BwKfV3Akq5_MFZDFZCnW-wzl-CCo83WoZvnLQwCTeDv8uzluRSnm71I3QCLdhrqE2e9YkxvuxdBfpT_PI7Yz-FOKnu1R6HsJeDCjn12Sk3vmAk" +
    "tV2zb34MCdy7cpdTh_YVr7tss2u6vneTwrA86rZtu5Mbr1C1XsmvkxHQAdYo0",
  dq: "h_96-mK1R_7glhsum81dZxjTnYynPbZpHziZjeeHcXYsXaaMwkOlODsWa7I9xXDoRwbKgB719rrmI2oKr6N3Do9U0ajaHF-NKJnwgjMd2w9cjz" +
    "3_-kyNlxAr2v4IKhGNpmM5iIgOS1VZnOZ68m6_pbLBSp3nssTdlqvd0tIiTHU",
  qi: "IYd7DHOhrWvxkwPQsRM2tOgrjbcrfvtQJipd-DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd_QJQ3ydy5cY7YIBi87w93IKLEdfnbJt" +
    "oOPLUW0ITrJReOgo1cq9SbsxYawBgfp_gh6A5603k2-ZQwVK0JKSHuLFkuQ3U",
};
const PUBLIC_JWK = { kty: "RSA", n: JWK.n, e: JWK.e };
const SPKI = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-V" +
  "aw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSX" +
  "ndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmo" +
  "udF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQIDAQAB";
const PKCS8 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCh-BYK4uPJtGXOjS1lYmM2K5J9vinh8CR3_BYlzJChNuOL2TSXxbbqY913Ee" +
  "Z8dCn5VrD7io8ImtxLaYk8wTM_U-3QGbh3hCUv7JFP5IV3aVlL6kKA0ywPVb9ilE8TA5a8bpvfbr3SvaNnjuygxmj3AbONv_s4yDQs4v5tJ_re" +
  "SlpIdJed1LnPmt7Ex1sFhSwsD174pcF1A5L5ROjtZMEQxrZHYJqkeDrrnGya11UxMFBji4NmXG9veoKjlnAqH2QbgtPr8jkiGUkftoaHLFcW9Q" +
  "r4NY2ai50Xw0Byj3-H2JoY2PyrZ62EWQwuz3WTOTY8BwNNb2BvniHgVFbK5emhAgMBAAECggEAEq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZ" +
  "D50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l" +
  "9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoF" +
  "aFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQKBgQDgHMQQ60imZV1URk0KpL" +
  "ttoLhyt3SmqdEf_kgHePDdtzEafpAu-cS191R2JiuoF2yzWXnwFDcqGigp5BNr0AHQfD8_Lk8l1Mk09jxxCfui5nYooNyac8YFjm3vItzVCVDn" +
  "Ed3BbVWG8qf6deqElMGAg-C2V0L4oNXnP7LZcPAZRwKBgQC5A8R-CZW2MvRTLLHzwZkUXV866cff7tx6kqa0finGG0KgeqlaZPxgCZnFp7AeAc" +
  "CMtiynVlJ7vMVgePsLq6XtON4tB5kP9jAPrq3rbAOal78eUH5OcED6eNuCV8ixEu1eWcPNCS_l1OW1EnXUEoEHKl54Xrrz2uNwkgMTP1FZ1wKB" +
  "gAcCn1dwJKufzBWQxWQp1vsM5fggqPN1qGb5y0MAk3g7_Ls5bkUp5u9SN0Ai3Ya6hNnvWJMb7sXQX6U_zyO2M_hTip7tUeh7CXgwo59dkpN75g" +
  "JLVds29-DAncu3KXU4f2Fa-7bLNrur53k8KwPOq2bbuTG69QtV7Jr5MR0AHWKNAoGBAIf_evpitUf-4JYbLpvNXWcY052Mpz22aR84mY3nh3F2" +
  "LF2mjMJDpTg7FmuyPcVw6EcGyoAe9fa65iNqCq-jdw6PVNGo2hxfjSiZ8IIzHdsPXI89__pMjZcQK9r-CCoRjaZjOYiIDktVWZzmevJuv6WywU" +
  "qd57LE3Zar3dLSIkx1AoGAIYd7DHOhrWvxkwPQsRM2tOgrjbcrfvtQJipd-DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd_QJQ3ydy5" +
  "cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp_gh6A5603k2-ZQwVK0JKSHuLFkuQ3U";

// Signatures of "data" with PKCS #1 v1.5.
const PKCS1 = {
  "SHA-1": "W7VYxwHGC1ZerNzoGDdQu2t9yDJlKw85YQLrcG38QLDmKUeZeUFKMzvczNq2FAMzVcTtcIkvZZp5w7r1m51ZLMtZaTm7m1cpRcaPm0QxRwBp38" +
    "Vsyqqgize2Mcac9rcmL2b_kRHHFBh-wVmg4nPnF2nYMNQBRQNPWQbPJKGtD6FnbkCHYCDV9K7yDXxgmwcMzGxVccdDgSMG-mLQ-GjXmSLgH8Bs" +
    "n9bXAV5LxBdOpG5hOvNdp4l2hu04xeBd8-ezqOK3jLkOHAdfqbpP6rtjR385_bm5rhsBKws0qkyq5fN-WA6766D-RvPeNuQYhGzqgL5U0WV6yw" +
    "4FdQ2RlmlUrw",
  "SHA-256": "Ro8rLyDrWnwHM2IYL8797AvAL9oy_2UpdhG_6nUdT1W1kNvE3Juzbp0kRODfEnEo5VEWWINc6aOJsPkWSj7bHdrESi_yMIc3G7tqYzKV3sOMrT" +
    "TEyZHj7d3IGX2GD3HTz9J1MvXo0vEoMiqLvhstk7GoUFdnZNkK71RSZFcDKn3XBdpxey6Sus6fYoGRnJ_SzWjhDdLqc2E0z0OHGxBNHMo3-Y1l" +
    "NPBALsveRWSTjGVSoigcSII3wKoNH1QC4h0IDjdLxChgqXBL-FW1pxChODvPIFeZmIp2kMeknwMUyOPj3En6mlSKtm3j0fpK1DuUsWXOOsQ5XA" +
    "k4kMoyH3Axsg",
  "SHA-384": "I5AWMCGjiWeZttNSNR-TAGbgBgdQMn8h2JT3Y5IvqAKc-uNufiHoVw74fPVSOuiNtgz62U1H0mBHlC_ndkJHT6lSeCKTE5vfmKSP_-DQSb7qHU" +
    "qIMURfcmtX-ygxBtrYDwBHxWvq1lrf_c4vgCDrGSOAr7mtwFD2bc9DLiMa5AmrKCioKieYQbrrczFlJiPYdVsKeUFxNwHpD1jph8BlCX2JqMFB" +
    "r3BQ9szGg_gxJDoxZRZkJIJMYKSzVwm4P4uyhmCB16WlDRcfdbz1lOz_m7NO26RUxzqqK1wSymdb8pJD6rNmvXdia3JBVLkx46oWkM7wfUjpyx" +
    "ZDQSWb1NC2Fw",
  "SHA-512": "NyMKTH4-52Mbjmqt5lrIPXA8S-ZasaXWoZ3AT4QQnGmLZNh9x5fwh51HUPGh4zZnXQezIJvnKlamje2z65Qxo91ThD_N4BlFLKQm9mOWHD4eu9" +
    "xYdOAGZJd6jkaik5yqZJuPe40M-bAYeiHYHYqi1O5lirifUT62vJTT8zD1tfUAe5PvrdJpbNSJDjJDwKVrWK9zmXPYnDivhf_MhEp5VWzpH0II" +
    "Gk7NrPj2PZLf4LHy9iuzrzhbokhwvCeLE-xa_mIUGwEvHOqWE2bYbR3k5qv_YOXscklTu2HCpbeoFiGBmgGh2blTlgno6ewJOcyTQ7zm6ge6pq" +
    "1KbbGfeAWMng",
};
// Signatures of "data" with PSS: hash, length of the salt in bytes, signature.
const PSS = [
  ["SHA-1", 0, "eY0rglyJEGqb2wHXPwZP_2G9M4YF6ahAXcHqZspykRxLsOLSnX_AtYzaF6TOUeNXaRTV41i39zee3Bd6iTH534owjG4c7D3lf5nvLV7P9-ytD-" +
    "CfDmW_KuG0F_ogDBnuAmAw4T6GZuR519K94GrUzOdAS68Ksh0lasQTRa-Rf7DdC_FWtZsTvs_9Yb1jJVkFAcJlcELFtLF_JhGMsBUywa8BocoN" +
    "zpcECDiw1sOot7MaZp9ReWO2Lvwjr4AlQ0dIVWh8CW4BW-3cYRShdOnrmrJGazpVaH6mVbBiJMAR6uFH7cjHi9AWK5zcDkuZ_8kSPA2rR_jaq7" +
    "lVM_WllF6KqA"],
  ["SHA-1", 20, "jgLTsFuBHgKV6ezTuCrSJd7LQK8awc2L0Vfzd-5-U1OKGM_l6FhRZNHafKbw7Sc_G4W-B8xqEAoyEfxTjWot_TawU6SrxOnBkEH4bIiKdh6BcT" +
    "qT4DavpB8hGwNcbkJmijYBg0mLoTBwmtrauLmg9vtKQG55fWaNilbDpDlODnMDA2lO9x-6hlZG3Go8CXf_5q8HKzHRIhAlLdxzAaM__m1K-5sx" +
    "KlCDvp5HbVH-Bku4EZiRUWDej-5aAhnEmHSW1S1Zt2vLquYulkqC5X9PHWwQsYPSQW8ic-tf02YtCTAUsjfamHt44dTQMtMdwzwr3fKLwk4j9t" +
    "rxANsutwFT7A"],
  ["SHA-256", 32, "kPFoI46LkCBwv3pShSxakhMOqbO4O8YWgHdpg8Bdg7lwyhCI_0eD-EgcuFu7sb1fB7JoyqGEpG2YXBzR3m_H6dBYUb-A5RLQJO7fbm4AGxYQvk" +
    "1DT9ymnZlrFjMTl1fTA6ebhcMePBrDLgKlaq8JNR6NpUtqY2VRz66aTcgPIk5ryqB1MmZIjzTrUQ01JLDJRwCPckJ4U72rxAgVM9NzujMZUeIR" +
    "m2ElVa8nj-Lx7GVpZpy3phoXgEB57uue2joQCySxs86nnnu499CCvSgfRK1tZwZSXPimm11MPLIlLKB0BuDGtBS-G7v9H2X97ISi5R6JMhpg9k" +
    "97Fd-J8EaUDQ"],
  ["SHA-512", 64, "fu9AEsdcIperBp7J3sHvSEJJp4kacDDbT-kezoBhGH0j7doY4Lawi6_29Gc6tjTeCpsrm2Xk9L5lpBaNrMzn-5BW1lBO-Co5njwNfdJpCzMjIB" +
    "HrdyAAMpjC16IV1kGec92iLUqLL9WUv1IX6qjScG3aVQYrkpiolOHItn6f4ugeiI8emBtGgRGDmcDDtOzacA-1LgLRT77HvV9Ov4P1ZAnHU4vt" +
    "hqd3GyuCxnc7Qgth_tbL2SrVqsCcz8O-3233M0ynUhxGPlhfOWf6FR38z-wU-YlAPqkHLD7mVxAfSisGQzpu1b0vXJuFwYilmB_vob26o29le8" +
    "sN5XHqI3IDbQ"],
];
// "plain", encrypted with OAEP: hash, label, result.
const OAEP = [
  ["SHA-1", "", "PFpoEKjq2p2jOyR6BA8gb4ZvaTbklYWi6ol_EXroI-G919GknAQRWzN3u4XWab0BOl961-1uQToOoNJv7dh3MKILEuFHaRHwt6DoQgEyhtjJAR" +
    "en1uJiM-kv-7Xr97hHfVMCX5JTN6ljN_jS3catiHgRMdnOEjuQ4qlZMQsMd_9j_WDr4hRJ7QkzWnP92EKkBmWRqFldNkm6t0lBlD4d-mVE3oQ_" +
    "SjoEos82qOx43WXFYFugSGzFjMaa6dDjIWUeu3xihI0efoAA6vsbTL_fY7S7W8yY24KouE5g-QYdgwLhkbeOa9ZmajS1i1DAGuYo1LY1WX2SNn" +
    "9_KCfEz25RQg"],
  ["SHA-1", "label", "eHP3dM53ckISzxMGY9plGqUiNPFflKMrUzNrtTEtQD9QlsMF-H3RKs02n19bXkoejrbQiQgCTLNXJ46NdVjhbPBt2PImjmgVY6Ybpn_g0voua6" +
    "aS29yGoG44HTo-k9G_iaxHqOAyMGmdA_Y1TtEeh7n0hPH4yDrEwg5xO1WxmI98tHl55SbKIQci0RBCniyuGGpYAc1MAKVORaBvePTLL7mQAFxF" +
    "ncJ43LxWUvbxeTJRculdxc2BEwq1J_MnIvgVH88r17_caswA_ngw0_0RhWvoTi5TmHYUTOlAVNq9c5NzW7VEHQ8416T9_ihnxJiT6lHkWVoFqS" +
    "orOL1Qz9Bqsw"],
  ["SHA-256", "", "OyPnE60DMKC47KwhjlZBfSpA4hOsvqulNw1V8buqiKJ5hSXaFfAcV-6WccnVlN5XQYFod0aww3n0TsTdKltQk95q0VDf0ifigTrhhaC9YOcNZ4" +
    "0hf5zIyrS2Xk1PRf_FTOqbDGmo7seXKmQhzIRgE-_Vf9LsQT47e2Y9aeQUmBK1QFgopTl6kH1FFz0dB37kmy22z3hirlwji14PP7imzqDU36bg" +
    "-WpLxs7nAPbb-bE28ppVVbCmsnXel_0JY9B3qhY-x6v93ypVubSk49HTi5n3WY9tD29HuzLK6HOC1JIqFJh_giW-_bWl2OGs-5F0VSMnrRCke_" +
    "K_q-IUPMUUjg"],
  ["SHA-256", "label", "lDi1ngUWtzF3MmDPeQpy86U3rNQIrVHH0PCu08Ybuo_IrPGD_83c_hD8MGGhAChncMNwPvEDlI0rfSwG9A57WQBCDYcmP6Eg82aYTMEw1-cmbV" +
    "eVak0rrRGsyHdpvFgIXTtF76SDHn0v_ztf8EshH1Y0EC17BnFEgutAMYETGjGzDcn6WOP1T-7eKev3uTD5V6ypIqEQ2frE8fVbhspPX2Xdt__X" +
    "48a7pOkqyEMyDyCkHQgc4TVFU4B76nV0ZQXbJIMrdgqmHmqLj-HztJvcDG3-5J7gs9e3ZZiSm8CdPXdAb8HXChJNtik8tuHtFYIVhiVsPRsRzb" +
    "79J1sLVu1BOQ"],
  ["SHA-512", "", "W5UU_UfExh80gmeYUoByOerVLh6SSRoR01AxULo8gWgPpUpGZrUEB3BByb6v3L_woIsJlYqKnJ9ylAz57NKwNUwjkqym6K3TI72SrBnZm7NcKt" +
    "c26mzn--fjKGT9CfMUStnkkEhOpWuS0hPj5XD19koruNL7NIoadP3ZqXkaysEOFDqxvmBkurHfqCua8zpLLhRa4jBlxrRyMdZ5wtmGoJL99GMx" +
    "c3xUdr49rSw30U88kd5ujkzWW__jVgKkobcI_1HY65YdHe8zgUtWtTGNJBHEzwxteU7GK6zeQDmsWDPisaHKOQnhi4PUJCKfByhMYzGcIR50tE" +
    "zvGLvXubvsbg"],
  ["SHA-512", "label", "Jy8JyUkKwpBy85js-idHJ3MpxfPZ2DmDMIfiJeKvYl3JJNSADuAFFf5hYDfdCezxCp09CXOFstQrOCNJqooCQEI7geKoeEuk59Ee2yPNoUyAXu" +
    "tvRsRJqK96yDeV5QAquqRdIgpdz7fnA-kVnWv0Je9c1iDZaeAIL89feKMtzgXuGkf1HUUYlvvwAZWtHxpLJhWGHemhCzYSxo9xQibrHM9qQ72Z" +
    "t00B_nFFWWfSo-rFApz9DdjvTttJFqFMPaa74EB3uGJsnBtMXwTGWatD8Y4rDFalOR4s_Gv_xZlEVBRJEALPzNERS6oP8XHJjoEX5PJ6r6O6SD" +
    "MzV9ikHiRXnQ"],
];

const HASHES = ["SHA-1", "SHA-256", "SHA-384", "SHA-512"];
const SIGNING = ["RSASSA-PKCS1-v1_5", "RSA-PSS"];
const parameters = (name, saltLength = 32) => (name === "RSA-PSS" ? { name, saltLength } : name);
const importPublic = (name, hash, usages) => subtle.importKey("spki", bytes(SPKI), { name, hash }, true, usages);
const importPrivate = (name, hash, usages, extractable = true) => subtle.importKey("pkcs8", bytes(PKCS8), { name, hash }, extractable, usages);

about("SubtleCrypto: RSA");

check("the JSON Web Signature of RFC 7515 is reproduced with its key", async () => {
  const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  const input = text("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ");
  const signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr" +
  "7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--x" +
  "i12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_Ioy" +
  "pGlUPQGe77Rw";
  const key = await subtle.importKey("jwk", JWK, algorithm, false, ["sign"]);
  equal(base64(await subtle.sign("RSASSA-PKCS1-v1_5", key, input)), signature);
  const publicKey = await subtle.importKey("jwk", PUBLIC_JWK, algorithm, true, ["verify"]);
  equal(await subtle.verify("RSASSA-PKCS1-v1_5", publicKey, bytes(signature), input), true);
});

check("signatures of PKCS #1 match those of another implementation", async () => {
  for (const hash of HASHES) {
    const key = await importPrivate("RSASSA-PKCS1-v1_5", hash, ["sign"]);
    equal(base64(await subtle.sign("RSASSA-PKCS1-v1_5", key, text("data"))), PKCS1[hash], hash);
  }
});

check("PSS signatures of another implementation are verified only with their salt length", async () => {
  for (const [hash, saltLength, signature] of PSS) {
    const key = await importPublic("RSA-PSS", hash, ["verify"]);
    equal(await subtle.verify({ name: "RSA-PSS", saltLength }, key, bytes(signature), text("data")), true, `${hash} ${saltLength}`);
    equal(await subtle.verify({ name: "RSA-PSS", saltLength: saltLength + 1 }, key, bytes(signature), text("data")), false);
  }
});

check("only the signed data is verified", async () => {
  for (const name of SIGNING) {
    for (const hash of HASHES) {
      const key = await importPrivate(name, hash, ["sign"]);
      const publicKey = await importPublic(name, hash, ["verify"]);
      for (const salt of name === "RSA-PSS" ? [0, 1, 64] : [0]) {
        const signature = new Uint8Array(await subtle.sign(parameters(name, salt), key, text("data")));
        equal([signature.length, await subtle.verify(parameters(name, salt), publicKey, signature, text("data"))], [256, true], `${name} ${hash}`);
        equal(await subtle.verify(parameters(name, salt), publicKey, signature, text("Data")), false);
        equal(await subtle.verify(parameters(name, salt), publicKey, signature.slice(1), text("data")), false);
        equal(await subtle.verify(parameters(name, salt), publicKey, new Uint8Array(0), text("data")), false);
        signature[100] ^= 1;
        equal(await subtle.verify(parameters(name, salt), publicKey, signature, text("data")), false);
      }
    }
  }
});

check("PSS rejects a salt for which the key is too short", async () => {
  const key = await importPrivate("RSA-PSS", "SHA-256", ["sign"]);
  equal((await subtle.sign(parameters("RSA-PSS", 222), key, text("data"))).byteLength, 256);
  for (const salt of [223, 2 ** 31, 2 ** 32 - 1]) await rejects("OperationError", subtle.sign(parameters("RSA-PSS", salt), key, text("data")));
  await rejects("TypeError", subtle.sign("RSA-PSS", key, text("data")), "'saltLength'");
  await rejects("TypeError", subtle.sign(parameters("RSA-PSS", -1), key, text("data")));
});

check("OAEP decrypts what another implementation has encrypted", async () => {
  for (const [hash, label, data] of OAEP) {
    const key = await importPrivate("RSA-OAEP", hash, ["decrypt"]);
    const algorithm = label === "" ? "RSA-OAEP" : { name: "RSA-OAEP", label: text(label) };
    equal(new TextDecoder().decode(await subtle.decrypt(algorithm, key, bytes(data))), "plain", `${hash} ${label}`);
    await rejects("OperationError", subtle.decrypt({ name: "RSA-OAEP", label: text("another") }, key, bytes(data)));
  }
});

check("OAEP encrypts at most as many bytes as the key allows", async () => {
  for (const [hash, most] of [["SHA-1", 214], ["SHA-256", 190], ["SHA-384", 158], ["SHA-512", 126]]) {
    const key = await importPrivate("RSA-OAEP", hash, ["decrypt"]);
    const publicKey = await importPublic("RSA-OAEP", hash, ["encrypt"]);
    for (const length of [0, 1, most]) {
      const encrypted = await subtle.encrypt("RSA-OAEP", publicKey, new Uint8Array(length).fill(7));
      equal([encrypted.byteLength, new Uint8Array(await subtle.decrypt("RSA-OAEP", key, encrypted))], [256, new Uint8Array(length).fill(7)]);
    }
    await rejects("OperationError", subtle.encrypt("RSA-OAEP", publicKey, new Uint8Array(most + 1)), "too long");
    for (const length of [0, 255, 256, 257]) await rejects("OperationError", subtle.decrypt("RSA-OAEP", key, new Uint8Array(length)));
  }
});

check("private and public keys permit only their own operations", async () => {
  for (const name of SIGNING) {
    const key = await importPrivate(name, "SHA-256", ["sign"]);
    const publicKey = await importPublic(name, "SHA-256", ["verify"]);
    equal([key.type, key.usages, publicKey.type, publicKey.usages], ["private", ["sign"], "public", ["verify"]]);
    await rejects("InvalidAccessError", subtle.sign(parameters(name), publicKey, text("data")));
    await rejects("InvalidAccessError", subtle.verify(parameters(name), key, new Uint8Array(256), text("data")));
    await rejects("SyntaxError", importPrivate(name, "SHA-256", ["verify"]), "private key");
    await rejects("SyntaxError", importPublic(name, "SHA-256", ["sign"]), "public key");
    await rejects("SyntaxError", importPrivate(name, "SHA-256", []));
    equal((await importPublic(name, "SHA-256", [])).usages, []);
  }
  await rejects("SyntaxError", importPrivate("RSA-OAEP", "SHA-1", ["encrypt"]));
  await rejects("SyntaxError", importPublic("RSA-OAEP", "SHA-1", ["unwrapKey"]));
});

check("keys describe their algorithm", async () => {
  const key = await importPublic("RSA-OAEP", "SHA-384", ["wrapKey", "encrypt"]);
  equal(key.algorithm, { name: "RSA-OAEP", modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]), hash: { name: "SHA-384" } });
  key.algorithm.publicExponent[0] = 9;
  equal((await subtle.exportKey("jwk", key)).e, "AQAB");
});

check("keys are exported as they were imported", async () => {
  const names = {
    "RSASSA-PKCS1-v1_5": ["RS1", "RS256", "RS384", "RS512"], "RSA-PSS": ["PS1", "PS256", "PS384", "PS512"],
    "RSA-OAEP": ["RSA-OAEP", "RSA-OAEP-256", "RSA-OAEP-384", "RSA-OAEP-512"],
  };
  for (const [name, algs] of Object.entries(names)) {
    const [privateUsages, publicUsages] = name === "RSA-OAEP" ? [["decrypt"], ["encrypt"]] : [["sign"], ["verify"]];
    for (let i = 0; i < HASHES.length; i++) {
      const key = await importPrivate(name, HASHES[i], privateUsages);
      const publicKey = await importPublic(name, HASHES[i], publicUsages);
      equal([base64(await subtle.exportKey("pkcs8", key)), base64(await subtle.exportKey("spki", publicKey))], [PKCS8, SPKI]);
      const jwk = await subtle.exportKey("jwk", key);
      equal(jwk, { kty: "RSA", alg: algs[i], n: JWK.n, e: JWK.e, d: JWK.d, p: JWK.p, q: JWK.q, dp: JWK.dp, dq: JWK.dq, qi: JWK.qi, key_ops: privateUsages, ext: true });
      equal(await subtle.exportKey("jwk", publicKey), { kty: "RSA", alg: algs[i], n: JWK.n, e: JWK.e, key_ops: publicUsages, ext: true });
      const again = await subtle.importKey("jwk", jwk, { name, hash: HASHES[i] }, true, privateUsages);
      equal(base64(await subtle.exportKey("pkcs8", again)), PKCS8);
      await rejects("InvalidAccessError", subtle.exportKey("spki", key));
      await rejects("InvalidAccessError", subtle.exportKey("pkcs8", publicKey));
      await rejects("NotSupportedError", subtle.exportKey("raw", publicKey));
    }
    await rejects("NotSupportedError", subtle.importKey("raw", bytes(SPKI), { name, hash: "SHA-1" }, true, publicUsages));
  }
});

check("invalid key data is a DataError", async () => {
  const algorithm = { name: "RSA-PSS", hash: "SHA-256" };
  const spki = bytes(SPKI);
  const pkcs8 = bytes(PKCS8);
  for (const data of [spki.slice(1), spki.slice(0, -1), new Uint8Array([...spki, 0]), pkcs8, new Uint8Array(0), new Uint8Array(1000)]) {
    await rejects("DataError", subtle.importKey("spki", data, algorithm, true, ["verify"]));
  }
  const changed = pkcs8.slice();
  changed[pkcs8.length - 1] ^= 1;
  for (const data of [changed, pkcs8.slice(0, -1), spki, new Uint8Array(0)]) {
    await rejects("DataError", subtle.importKey("pkcs8", data, algorithm, true, ["sign"]));
  }
});

check("a JSON Web Key must match the requested algorithm, usages and extractability", async () => {
  const wanted = (change, usages = ["sign"], extractable = true) =>
    subtle.importKey("jwk", { ...JWK, ...change }, { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }, extractable, usages);
  equal((await wanted({ alg: "RS256", use: "sig", key_ops: ["sign"], ext: true })).type, "private");
  for (const change of [
    { kty: "EC" }, { kty: undefined }, { alg: "RS1" }, { alg: "PS256" }, { use: "enc" }, { key_ops: ["verify"] }, { key_ops: ["sign", "sign"] }, { ext: false }, { n: undefined },
    { e: undefined }, { p: undefined }, { q: undefined }, { dp: undefined }, { dq: undefined }, { qi: undefined }, { n: JWK.n + "=" }, { d: JWK.p }, { p: JWK.q }, { q: JWK.p, p: JWK.p },
    { dp: JWK.dq }, { qi: JWK.dp }, { e: "" }, { e: "AA" }, { e: "AAEAAQ" }, { e: "Ag" }, { n: "AQ" }, { d: "" },
  ]) await rejects("DataError", wanted(change));
  await rejects("NotSupportedError", wanted({ oth: [] }));
  await rejects("TypeError", wanted({ oth: [1] }));
  await rejects("SyntaxError", wanted({}, ["verify"]));
  await rejects("SyntaxError", wanted({ d: undefined }, ["sign"]));
  await rejects("SyntaxError", wanted({}, []));
});

check("keys of up to 8192 bits are imported", async () => {
  const n = base64(new Uint8Array(1025).fill(0xff));
  await rejects("NotSupportedError", subtle.importKey("jwk", { kty: "RSA", n, e: "AQAB" }, { name: "RSA-PSS", hash: "SHA-1" }, true, ["verify"]), "8192 bits");
  const small = await subtle.importKey("pkcs8", bytes("MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBALfZSow7g6R4L8RvFgcDBPT4hSop0dvQuE0pCe0mu1-V0XiyFl0myTmTH7ZkqU" +
  "P1uT2JAsZquOl-L3CQMH4gd1W34YOMXOso4d-WE4_JUzBqkntm3Hf1HEcPkqJF1KiIRe-X1TTYKcs1Ek6wk6MpgKjczGgxe2N4b-coeubxRoWH" +
  "AgMBAAECgYEAnyD3sntMzU2t4rNX-Ie3gaWd9UmvODjnXPn5eof8xJYzcemLC-OnZise1ss36vfD9ywg98al-Ivc2ewj3PeS8WncpkY84MYUsO" +
  "kGNyEuc8rSo1F285wiyA_sKu6I6jaIohvGta1_rFLN5w71g7jKzVtcqob27cpJhxB14d4bAeECQQDhVmZvaAB6UJmpE2XLqhTB8CFz6dS9jyLm" +
  "fuqcfqbkmxpdWlczATFmaAnZwy269UJx2IburdTWhB7qmAhANA2RAkEA0N2jSidanjlKz2UQpODRD-TsCM68fnG97uvkDqT-fLrWb6KIdPCq35" +
  "C2X5G2HYLf1I-xGZDLkzmqffm_08u1lwJAU1vXAReENbtjXLykR7dffm8KsQqrfIRa8NG6kLH5o1ANbMNixqeGUs_h9QDTBfp83givwdPkjIbL" +
  "uRUM2FNpQQJARpxnc85SKGOeEvdL5THL-9-cnG2n8-doGrnM49aL4ocXr633C_HBEsvNnAma0-dG3ImnickVybQZG3WvkF6yCQJBAJKo9LIPpW" +
  "jAlw84nRp12DDR1e5Znw3WDnAEr2HO_fpgft4byGNRBkYzngRj4wvppG8jce1Ykh-Om2Ji-8BE3oI"), { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }, true, ["sign"]);
  equal([small.algorithm.modulusLength, base64(await subtle.sign("RSASSA-PKCS1-v1_5", small, text("data")))], [1024, "c_88MmdtNW3uaOvL5VKn83XUBJ9STyLU6osGeCya1GQeU1jbBQgfqrlaAl1uDdTg7XdbIuguJKT-seM7OuiiYXzOKmZlcmSrSj26aBNyjhBJyc" +
  "10wqQ5k9R77_gikcI_8u7zypVdsqEySEUiMjreVNEEFRhnSf3hSdlkvS3OAJg"]);
});

check("keys are generated as pairs", async () => {
  const algorithm = { name: "RSA-OAEP", modulusLength: 2048, publicExponent: new Uint8Array([0, 1, 0, 1]), hash: "SHA-256" };
  const { privateKey, publicKey } = await subtle.generateKey(algorithm, false, ["encrypt", "decrypt", "wrapKey", "unwrapKey"]);
  equal([privateKey.type, privateKey.extractable, privateKey.usages], ["private", false, ["decrypt", "unwrapKey"]]);
  equal([publicKey.type, publicKey.extractable, publicKey.usages], ["public", true, ["encrypt", "wrapKey"]]);
  equal([publicKey.algorithm.modulusLength, publicKey.algorithm.publicExponent], [2048, new Uint8Array([1, 0, 1])]);
  const secret = await subtle.importKey("raw", text("0123456789abcdef"), "AES-GCM", true, ["encrypt"]);
  const wrapped = await subtle.wrapKey("raw", secret, publicKey, "RSA-OAEP");
  const back = await subtle.unwrapKey("raw", wrapped, privateKey, "RSA-OAEP", "AES-GCM", true, ["encrypt"]);
  equal(new TextDecoder().decode(await subtle.exportKey("raw", back)), "0123456789abcdef");
});

check("keys are generated only with sizes and exponents that take a bounded time", async () => {
  const wanted = (change, usages = ["sign", "verify"]) => subtle.generateKey(
    { name: "RSA-PSS", modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]), hash: "SHA-256", ...change }, true, usages);
  for (const modulusLength of [0, 512, 1024, 2047, 2049, 4224, 16_384, 2 ** 32 - 1]) await rejects("OperationError", wanted({ modulusLength }), "2048 to 4096");
  for (const publicExponent of [[], [0], [1], [2], [5], [1, 0, 0], [1, 0, 1, 0]]) {
    await rejects("OperationError", wanted({ publicExponent: new Uint8Array(publicExponent) }), "3 or 65537");
  }
  await rejects("TypeError", wanted({ publicExponent: [1, 0, 1] }));
  await rejects("TypeError", wanted({ publicExponent: new Uint8Array([1, 0, 1]).buffer }));
  await rejects("TypeError", wanted({ modulusLength: 2 ** 32 }));
  await rejects("TypeError", wanted({ modulusLength: undefined }));
  await rejects("TypeError", wanted({ hash: undefined }));
  await rejects("NotSupportedError", wanted({ hash: "MD5" }));
  await rejects("SyntaxError", wanted({}, ["encrypt"]));
  await rejects("SyntaxError", wanted({}, ["verify"]));
  await rejects("SyntaxError", wanted({}, []));
});
