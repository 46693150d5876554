//! Functions on IP addresses and CIDR blocks.

use std::net::IpAddr;

use super::meter::{Meter, fail, no_overload};
use super::value::{Out, Val};

/// An address without a zone that is not IPv4 in the clothes of IPv6.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let quoted = format!("{text:?}");
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"))
        }
        Ok(ip) => Ok(ip),
        Err(_) => {
            let zoned = text.split_once('%').is_some_and(|(ip, zone)| {
                !zone.is_empty() && ip.parse::<std::net::Ipv6Addr>().is_ok()
            });
            if zoned {
                return Err(format!("IP address {quoted} with zone value is not allowed"));
            }
            Err(format!(
                "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {}",
                ip_problem(text)
            ))
        }
    }
}

/// Why the text is no address, in Go's words.
fn ip_problem(text: &str) -> &'static str {
    match text.find(['.', ':', '%']).and_then(|i| text.as_bytes().get(i)) {
        Some(b'.') => {
            let parts: Vec<&str> = text.split('.').collect();
            if text.contains(|c: char| !c.is_ascii_digit() && c != '.') {
                "unexpected character"
            } else if parts.iter().any(|p| p.len() > 1 && p.starts_with('0')) {
                "IPv4 field has octet with leading zero"
            } else if parts.iter().any(|p| p.is_empty()) {
                "IPv4 field must have at least one digit"
            } else if parts.iter().any(|p| p.parse::<u8>().is_err()) {
                "IPv4 field has value >255"
            } else if parts.len() > 4 {
                "IPv4 address too long"
            } else {
                "IPv4 address too short"
            }
        }
        Some(b':') => "each group must have 4 or fewer hex digits, eight groups in all",
        Some(_) => "missing IPv6 address",
        None => "unable to parse IP",
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let problem = |why: &str| {
        Err(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?}): {why}"
        ))
    };
    let Some((ip, bits)) = text.rsplit_once('/') else { return problem("no '/'") };
    let Ok(ip) = ip.parse::<IpAddr>() else {
        return problem(&format!("ParseAddr({ip:?}): {}", ip_problem(ip)));
    };
    let well_formed =
        bits.bytes().all(|b| b.is_ascii_digit()) && (bits.len() == 1 || !bits.starts_with('0'));
    let Some(bits) = bits.parse::<u8>().ok().filter(|_| well_formed) else {
        return problem(&format!("bad bits after slash: {bits:?}"));
    };
    if bits > if ip.is_ipv4() { 32 } else { 128 } {
        return problem("prefix length out of range");
    }
    if let IpAddr::V6(v6) = ip
        && v6.to_ipv4_mapped().is_some()
    {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok((ip, bits))
}

/// The bits of an address, of 32 or 128.
fn bits_of(ip: IpAddr) -> (u128, u8) {
    match ip {
        IpAddr::V4(ip) => (u32::from(ip).into(), 32),
        IpAddr::V6(ip) => (ip.into(), 128),
    }
}

fn network(ip: IpAddr, bits: u8) -> IpAddr {
    let keep = |width: u32| u32::from(bits).min(width);
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - keep(32)).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - keep(128)).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

fn covers(block: (IpAddr, u8), ip: IpAddr) -> bool {
    bits_of(block.0).1 == bits_of(ip).1 && network(ip, block.1) == network(block.0, block.1)
}

pub(super) fn ip<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Cidr(ip, _)] => Ok(Val::Ip(*ip)),
        [Val::Str(s)] => parse_ip(s).map_or_else(fail, |ip| Ok(Val::Ip(ip))),
        _ => no_overload(),
    }
}

pub(super) fn is_ip<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => Ok(Val::Bool(parse_ip(s).is_ok())),
        _ => no_overload(),
    }
}

pub(super) fn is_canonical<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => parse_ip(s).map_or_else(fail, |ip| Ok(Val::Bool(ip.to_string() == **s))),
        _ => no_overload(),
    }
}

pub(super) fn family<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Ip(ip)] => Ok(Val::Int(if ip.is_ipv4() { 4 } else { 6 })),
        _ => no_overload(),
    }
}

fn test<'a>(args: &[Val<'a>], holds: fn(&IpAddr) -> bool) -> Out<'a> {
    match args {
        [Val::Ip(ip)] => Ok(Val::Bool(holds(ip))),
        _ => no_overload(),
    }
}

pub(super) fn is_unspecified<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    test(args, IpAddr::is_unspecified)
}

pub(super) fn is_loopback<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    test(args, IpAddr::is_loopback)
}

pub(super) fn is_link_local_multicast<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    test(args, |ip| match ip {
        IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    })
}

pub(super) fn is_link_local_unicast<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    test(args, |ip| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    })
}

pub(super) fn is_global_unicast<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    test(args, |ip| {
        let link_local = match ip {
            IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
        };
        !(link_local || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast())
    })
}

pub(super) fn cidr<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => match parse_cidr(s) {
            Ok((ip, bits)) => Ok(Val::Cidr(ip, bits)),
            Err(e) => {
                fail(format!("network address parse error during conversion from string: {e}"))
            }
        },
        _ => no_overload(),
    }
}

pub(super) fn is_cidr<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Str(s)] => Ok(Val::Bool(parse_cidr(s).is_ok())),
        _ => no_overload(),
    }
}

pub(super) fn contains_ip<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Cidr(net, bits), Val::Ip(other)] => Ok(Val::Bool(covers((*net, *bits), *other))),
        [block @ Val::Cidr(..), text @ Val::Str(_)] => {
            match ip(meter, std::slice::from_ref(text)) {
                Ok(other) => contains_ip(meter, &[block.clone(), other]),
                // The reference forgets why.
                Err(_) => no_overload(),
            }
        }
        _ => no_overload(),
    }
}

pub(super) fn contains_cidr<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Cidr(net, bits), Val::Cidr(other, more)] => {
            Ok(Val::Bool(bits <= more && covers((*net, *bits), *other)))
        }
        [block @ Val::Cidr(..), text @ Val::Str(_)] => {
            match cidr(meter, std::slice::from_ref(text)) {
                Ok(other) => contains_cidr(meter, &[block.clone(), other]),
                Err(_) => no_overload(),
            }
        }
        _ => no_overload(),
    }
}

pub(super) fn prefix_length<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Cidr(_, bits)] => Ok(Val::Int((*bits).into())),
        _ => no_overload(),
    }
}

pub(super) fn masked<'a>(_: &mut Meter, args: &[Val<'a>]) -> Out<'a> {
    match args {
        [Val::Cidr(ip, bits)] => Ok(Val::Cidr(network(*ip, *bits), *bits)),
        _ => no_overload(),
    }
}
